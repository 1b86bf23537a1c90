"""The node as a member of the cluster: its registration, its logs, and the image carried out."""
