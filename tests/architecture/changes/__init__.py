"""Changes that a maintainer may want, as patches: what each adds to which file of the source, and what works then."""
