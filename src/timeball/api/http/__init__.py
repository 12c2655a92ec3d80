"""HTTP/1.1 connections of the API, with bounds."""
