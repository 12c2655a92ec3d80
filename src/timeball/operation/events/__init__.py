"""The stream of events: `hub` collects the changes that the commits of this server made, `feed` sends them to
listeners."""
