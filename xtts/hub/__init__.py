"""Models and voices on disk: base models, downloads, bundles, run folders."""
