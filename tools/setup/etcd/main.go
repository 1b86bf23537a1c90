// The etcd server, built from its Go modules: Debian's etcd is older than the version we test on.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
