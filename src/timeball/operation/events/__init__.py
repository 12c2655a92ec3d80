"""The stream of events: `hub` collects what the commits of this server changed, `feed` sends it to listeners."""
