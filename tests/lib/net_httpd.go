// SPDX-License-Identifier: Apache-2.0

// An HTTP server of a directory ("serve ADDRESS DIR") and a client ("get URL"), for net_servers.sh.
package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	if os.Args[1] == "serve" {
		panic(http.ListenAndServe(os.Args[2], http.FileServer(http.Dir(os.Args[3]))))
	}
	r, err := http.Get(os.Args[2])
	if err != nil {
		panic(err)
	}
	if _, err := io.Copy(os.Stdout, r.Body); err != nil {
		panic(err)
	}
}
