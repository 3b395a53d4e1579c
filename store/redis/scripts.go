package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// A script is a Lua script with the digest by which Redis knows it.
type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Each file is appended to server.lua and may use its functions.
var (
	//go:embed server.lua
	serverLua string
	//go:embed settle.lua
	settleLua string
	//go:embed levels.lua
	levelsLua string
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

	levelsScript = newScript(serverLua + levelsLua)
	getScript    = newScript(getLua)
	putScript    = newScript(serverLua + putLua)
	deleteScript = newScript(serverLua + deleteLua)
	indexScript  = newScript(indexLua)
	metaScript   = newScript(metaLua)
	adoptScript  = newScript(serverLua + adoptLua)
)
