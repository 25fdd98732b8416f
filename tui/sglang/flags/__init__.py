"""Flag data of SGLang: built-in catalogue, groups, renames. Sources: server_args.py of 0.4.6 – 0.5.23."""
