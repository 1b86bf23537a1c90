"""The controller: the one owner of the cluster's metadata, elected among its replicas."""
