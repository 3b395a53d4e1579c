package explaincmd

import (
	"errors"
	"strconv"
	"strings"
)

// shellWords splits a command into its words, as a POSIX shell does: quotes,
// backslashes, line ends after a backslash, and $'…', which browsers write.
// Nothing is expanded. The command ends at an unquoted line end, |, ; or &.
func shellWords(text string) ([]string, error) {
	s := &shell{text: text}
	for s.at < len(s.text) {
		if done, err := s.next(); err != nil {
			return nil, err
		} else if done {
			break
		}
	}
	s.end()
	return s.words, nil
}

type shell struct {
	text  string
	at    int
	word  strings.Builder
	begun bool // a word, which may be empty
	words []string
}

var errOpenQuote = errors.New("a quote of the command is never closed")

func (s *shell) end() {
	if s.begun {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.begun = false
}

// next reads one character or one quoted part.
func (s *shell) next() (done bool, err error) {
	rest := s.text[s.at:]
	switch c := rest[0]; {
	case c == ' ' || c == '\t' || c == '\r':
		s.end()
		s.at++
		return false, nil
	case c == '\n' || c == '|' || c == ';' || c == '&':
		return true, nil
	case c == '\\':
		s.escaped(rest)
		return false, nil
	case c == '\'':
		return false, s.single(rest)
	case strings.HasPrefix(rest, "$'"):
		return false, s.ansi(rest)
	case c == '"':
		return false, s.double(rest)
	default:
		s.put(rest[:1], 1)
		return false, nil
	}
}

// put adds text to the word and goes on by n bytes.
func (s *shell) put(text string, n int) {
	s.word.WriteString(text)
	s.begun = true
	s.at += n
}

func (s *shell) escaped(rest string) {
	switch {
	case strings.HasPrefix(rest, "\\\r\n"):
		s.at += 3
	case strings.HasPrefix(rest, "\\\n"):
		s.at += 2
	case len(rest) == 1:
		s.at++
	default:
		s.put(rest[1:2], 2)
	}
}

func (s *shell) single(rest string) error {
	end := strings.IndexByte(rest[1:], '\'')
	if end < 0 {
		return errOpenQuote
	}
	s.put(rest[1:1+end], end+2)
	return nil
}

func (s *shell) double(rest string) error {
	var part strings.Builder
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '"':
			s.put(part.String(), i+1)
			return nil
		case rest[i] == '\\' && i+1 < len(rest) && strings.IndexByte("\"\\$`\n", rest[i+1]) >= 0:
			i++
			if rest[i] != '\n' {
				part.WriteByte(rest[i])
			}
		default:
			part.WriteByte(rest[i])
		}
	}
	return errOpenQuote
}

// ansi reads a part in $'…', with the escapes of C.
func (s *shell) ansi(rest string) error {
	var part strings.Builder
	for i := 2; i < len(rest); i++ {
		switch {
		case rest[i] == '\'':
			s.put(part.String(), i+1)
			return nil
		case rest[i] == '\\' && strings.HasPrefix(rest[i+1:], "'"):
			part.WriteByte('\'')
			i++
		case rest[i] == '\\':
			char, multibyte, tail, err := strconv.UnquoteChar(rest[i:], 0)
			if err != nil {
				part.WriteByte('\\')
				continue
			}
			if multibyte || char < 0x80 {
				part.WriteRune(char)
			} else {
				part.WriteByte(byte(char))
			}
			i = len(rest) - len(tail) - 1
		default:
			part.WriteByte(rest[i])
		}
	}
	return errOpenQuote
}
