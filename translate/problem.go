package translate

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// explain returns the problem that the client reads for an error of reading.
func explain(err error) Problem {
	var syntactic *jsontext.SyntacticError
	var nul nulError
	switch {
	case errors.As(err, &nul):
		return Problem{Field: dotted(nul.at), Message: "must not hold the character U+0000"}
	case !errors.As(err, &syntactic):
		return Problem{Message: "the body " + err.Error()}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return Problem{Field: dotted(syntactic.JSONPointer), Message: "appears more than once"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Problem{Message: "the body ends inside its JSON value"}
	}
	at := strconv.FormatInt(syntactic.ByteOffset, 10)
	return Problem{Message: "the body is not valid JSON in UTF-8 at byte " + at}
}

// dotted returns a JSON pointer as the field of a problem, such as
// "metadata.x.0.y".
func dotted(p jsontext.Pointer) string {
	var b strings.Builder
	for name := range p.Tokens() {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(name)
	}
	return shortened(b.String())
}

// maxShown is the largest part of a client's name, in bytes, that a problem
// shows.
const maxShown = 100

// shortened cuts a name to maxShown bytes and marks the cut.
func shortened(name string) string {
	if len(name) <= maxShown {
		return name
	}
	cut := maxShown
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}
