package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// A script is a Lua script with the digest that Redis knows it by.
type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Each file is joined behind server.lua, which it may use.
var (
	//go:embed server.lua
	serverLua string
	//go:embed settle.lua
	settleLua string
	//go:embed get.lua
	getLua string
	//go:embed put.lua
	putLua string
	//go:embed delete.lua
	deleteLua string
	//go:embed index.lua
	indexLua string
	//go:embed meta.lua
	metaLua string
	//go:embed adopt.lua
	adoptLua string

	getScript    = newScript(getLua)
	putScript    = newScript(serverLua + putLua)
	deleteScript = newScript(serverLua + deleteLua)
	indexScript  = newScript(indexLua)
	metaScript   = newScript(metaLua)
	adoptScript  = newScript(serverLua + adoptLua)
)
