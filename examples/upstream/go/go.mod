module github.com/card-gateway/card-gateway/examples/upstream/go

go 1.26.0

toolchain go1.27.3

require github.com/go-jose/go-jose/v4 v4.1.6
