"""`python -m highwater.embed` is the `highwater` command."""

from highwater.embed.cli import main

if __name__ == "__main__":
    main()
