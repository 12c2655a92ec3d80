"""The web UI: its built files, prepared for browsers. `static/` is written by the build of the folder `web`."""
