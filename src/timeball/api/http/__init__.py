"""HTTP/1.1 connections of the API, with limits on size, number and time."""
