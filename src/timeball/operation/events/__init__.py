"""The stream of events: `hub` collects the changes that the commits of this server made, `feed` sends them to
listeners. Here a window is the time between two publications: the changes of a window are published together."""
