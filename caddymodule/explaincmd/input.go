package explaincmd

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// readCapture reads a request in any of the forms that people have.
func readCapture(cmd *cobra.Command, text []byte) (*capture, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	trimmed := strings.TrimLeft(string(text), " \t\r\n")
	switch {
	case trimmed == "":
		return nil, errors.New("the input is empty; " + errNoRequest.Error())
	case trimmed[0] == '{':
		entry, _ := cmd.Flags().GetInt("entry")
		return readHAR([]byte(trimmed), entry)
	case isCurl.MatchString(trimmed):
		return readCurl(trimmed)
	case verboseLine.Match(text):
		return readRaw(verboseRequest(text))
	default:
		return readRaw(text)
	}
}

var (
	isCurl      = regexp.MustCompile(`^(?:[$#%>] +)?curl(?:\.exe)?\s`)
	verboseLine = regexp.MustCompile(`(?m)^> [A-Za-z]+ \S+ HTTP/`)
)

// verboseRequest returns the request in the output of curl -v. Its body is not
// there.
func verboseRequest(text []byte) []byte {
	var request []byte
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(">")); ok {
			request = append(request, bytes.TrimPrefix(rest, []byte(" "))...)
		}
	}
	return request
}
