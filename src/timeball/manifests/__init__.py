"""Jobs as files: what files, crontabs and manifests say, what a server has, and what would make the two agree."""
