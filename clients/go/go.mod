module github.com/card-gateway/card-gateway/clients/go

go 1.16
