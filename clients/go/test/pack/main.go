// The command packs this module as a module proxy serves it, below a directory:
// GOPROXY=file://DIR then installs it.
package main

import (
	"archive/zip"
	"io"
	"log"
	"os"
	"path/filepath"

	cardclient "github.com/card-gateway/card-gateway/clients/go"
)

const module = "github.com/card-gateway/card-gateway/clients/go"

func main() {
	if err := pack(filepath.Join(os.Args[1], module, "@v"), "v"+cardclient.Version); err != nil {
		log.Fatal(err)
	}
}

func pack(dir, version string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"list": version + "\n", version + ".mod": string(mod), version + ".info": `{"Version":"` + version + `"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	out, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	w := zip.NewWriter(out)
	files, err := filepath.Glob("*")
	if err != nil {
		return err
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			continue
		}
		if err := add(w, module+"@"+version+"/"+file, file); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}

func add(w *zip.Writer, name, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	entry, err := w.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(entry, in)
	return err
}
