package explain

import (
	"strconv"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// timestamp explains rule 7.
func (e *explainer) timestamp() {
	text, unix := e.Credentials.Timestamp, e.Credentials.Unix
	switch off := e.Now.Unix() - unix; {
	case unix == 0 && isMilliseconds(text):
		e.add(TimestampMilliseconds, "")
	case unix == 0 && strings.ContainsAny(text, "-T:"):
		e.add(TimestampISO, "")
	case unix == 0:
		e.add(TimestampForm, "")
	case auth.InWindow(e.Now, unix, e.Window):
		e.add(TimestampMoved, "")
	case off < 0:
		e.add(TimestampAhead, strconv.FormatInt(-off, 10))
	default:
		e.add(TimestampBehind, strconv.FormatInt(off, 10))
	}
}

// isMilliseconds reports whether the text is Unix time in milliseconds: 13
// digits.
func isMilliseconds(text string) bool {
	_, ok := auth.ParseTimestamp(text[:min(10, len(text))])
	return ok && len(text) == 13 && strings.Trim(text, "0123456789") == ""
}
