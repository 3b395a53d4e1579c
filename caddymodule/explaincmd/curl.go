package explaincmd

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// curlTakes names the options of curl that take an argument and do not matter
// here.
const curlTakes = " -A --user-agent -b --cookie -c --cookie-jar -e --referer -E --cert --key --cacert --capath -m --max-time" +
	" --connect-timeout -o --output -D --dump-header -w --write-out -x --proxy -U --proxy-user -u --user --resolve --connect-to" +
	" --retry --retry-delay --interface --unix-socket --tls-max --ciphers --limit-rate -K --config --oauth2-bearer --trace --trace-ascii" +
	" --stderr -C --continue-at -r --range -y -Y -z --cert-type --key-type --pass --dns-servers --max-redirs --local-port --noproxy "

// readCurl reads the request that a curl command sends.
func readCurl(text string) (*capture, error) {
	text = text[strings.Index(text, "curl"):]
	words, err := shellWords(text)
	if err != nil {
		return nil, err
	}
	l := new(curlLine)
	for rest := words[1:]; len(rest) > 0; {
		if rest, err = l.take(rest); err != nil {
			return nil, err
		}
	}
	return l.capture()
}

// take reads one option with its argument, or the URL, and returns the words
// that are left.
func (l *curlLine) take(words []string) ([]string, error) {
	word := words[0]
	rest := words[1:]
	if !strings.HasPrefix(word, "-") || word == "-" {
		l.address = word
		return rest, nil
	}
	name, argument, attached := word, "", false
	if strings.HasPrefix(word, "--") {
		name, argument, attached = strings.Cut(word, "=")
	} else if len(word) > 2 {
		if !takesArgument(word[:2]) { // -sS
			l.flag(word[:2])
			return append([]string{"-" + word[2:]}, rest...), nil
		}
		name, argument, attached = word[:2], word[2:], true
	}
	if !takesArgument(name) {
		l.flag(name)
		return rest, nil
	}
	if !attached {
		if len(rest) == 0 {
			return nil, fmt.Errorf("the option %s of the command lacks its argument", name)
		}
		argument, rest = rest[0], rest[1:]
	}
	return rest, l.option(name, argument)
}

const curlUsed = " -X --request -H --header -d --data --data-ascii --data-raw --data-binary --data-urlencode --json -F --form --form-string -T --upload-file --url "

func takesArgument(name string) bool { return strings.Contains(curlUsed+curlTakes, " "+name+" ") }

func (l *curlLine) flag(name string) {
	switch name {
	case "-G", "--get":
		l.inQuery = true
	case "-I", "--head":
		l.head = true
	case "--path-as-is":
		l.asTyped = true
	case "-L", "--location":
		l.notes = append(l.notes, "the command follows redirects (-L): a signature is for one URL")
	}
}

func (l *curlLine) option(name, argument string) error {
	switch name {
	case "-X", "--request":
		l.method = argument
	case "-H", "--header":
		l.headers = append(l.headers, argument)
	case "--url":
		l.address = argument
	case "-F", "--form", "--form-string":
		l.unsigned = name
	case "-T", "--upload-file":
		l.upload = true
		text, err := readFile(argument)
		l.data = append(l.data, text)
		return err
	case "-d", "--data", "--data-ascii", "--data-raw", "--data-binary", "--json", "--data-urlencode":
		return l.body(name, argument)
	}
	return nil
}

// body adds what an option puts into the body.
func (l *curlLine) body(name, argument string) error {
	path, isFile := strings.CutPrefix(argument, "@")
	switch {
	case name == "--data-urlencode":
		l.data = append(l.data, []byte(urlencoded(argument)))
	case isFile && name != "--data-raw":
		text, err := readFile(path)
		if err == nil && (name == "-d" || name == "--data" || name == "--data-ascii") {
			text = l.withoutLineEnds(text, path)
		}
		l.data = append(l.data, text)
		l.json = l.json || name == "--json"
		return err
	default:
		l.data = append(l.data, []byte(argument))
	}
	l.json = l.json || name == "--json"
	return nil
}

// urlencoded returns what --data-urlencode sends: content, =content or
// name=content.
func urlencoded(argument string) string {
	name, content, named := strings.Cut(argument, "=")
	if !named {
		name, content = "", argument
	}
	encoded := strings.ReplaceAll(url.QueryEscape(content), "+", "%20")
	if name == "" {
		return encoded
	}
	return name + "=" + encoded
}

// readFile reads a body that the command names.
func readFile(path string) ([]byte, error) {
	if path == "-" {
		return nil, errors.New("the command reads its body from standard input: write the body into a file and its name into the command")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the body that the command names: %w", err)
	}
	return text, nil
}

// withoutLineEnds returns the text of a file as -d sends it: without its line
// ends and NULs.
func (l *curlLine) withoutLineEnds(text []byte, path string) []byte {
	short := strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(string(text))
	if len(short) < len(text) {
		l.notes = append(l.notes, "curl -d leaves the line ends of the file out of the body: use --data-binary @"+path)
	}
	return []byte(short)
}
