package cli

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// unitName is the systemd unit of the gateway.
const unitName = "card-gateway.service"

var (
	fragmentPath = regexp.MustCompile(`(?m)^FragmentPath=(.+)$`)
	dropInPaths  = regexp.MustCompile(`(?m)^DropInPaths=(.+)$`)
)

// UnitFiles returns the file of the systemd unit of the gateway, and behind it its drop-ins
// in the order in which they apply; none if there is no unit. It asks systemd, and where
// that does not run it looks where systemd would.
func UnitFiles() []string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, _ := exec.CommandContext(ctx, "systemctl", "show", "--property=FragmentPath", "--property=DropInPaths", unitName).Output()
	if found := fragmentPath.FindSubmatch(answer); found != nil {
		files := []string{string(found[1])}
		if more := dropInPaths.FindSubmatch(answer); more != nil {
			files = append(files, strings.Fields(string(more[1]))...)
		}
		return files
	}
	var unit string
	var dropIns []string
	for _, dir := range []string{"/usr/lib/systemd/system", "/usr/local/lib/systemd/system", "/run/systemd/system", "/etc/systemd/system"} {
		path := filepath.Join(dir, unitName)
		if found, _ := filepath.Glob(path); len(found) > 0 {
			unit = path
		}
		found, _ := filepath.Glob(path + ".d/*.conf")
		dropIns = append(dropIns, found...)
	}
	if unit == "" {
		return nil
	}
	return append([]string{unit}, dropIns...)
}
