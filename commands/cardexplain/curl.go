package cardexplain

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// curlUsed are the options of curl that take an argument and matter here. curlTakes
// are those that take one and do not.
const (
	curlUsed  = " -X --request -H --header -d --data --data-ascii --data-raw --data-binary --data-urlencode --json -F --form --form-string -T --upload-file --url "
	curlTakes = " -A --user-agent -b --cookie -c --cookie-jar -e --referer -E --cert --key --cacert --capath -m --max-time" +
		" --connect-timeout -o --output -D --dump-header -w --write-out -x --proxy -U --proxy-user -u --user --resolve --connect-to" +
		" --retry --retry-delay --interface --unix-socket --tls-max --ciphers --limit-rate -K --config --oauth2-bearer --trace --trace-ascii" +
		" --stderr -C --continue-at -r --range -y -Y -z --cert-type --key-type --pass --dns-servers --max-redirs --local-port --noproxy "
)

// A curlLine is what the words of a curl command say of the request.
type curlLine struct {
	capture
	url     string
	data    [][]byte
	inQuery bool // -G: the data belongs to the query
	head    bool
	upload  bool
	asTyped bool // --path-as-is
	json    bool
	noFiles bool // it must not name files
}

// readCurl reads the request that a curl command sends, with the files that it names
// unless there must be none.
func readCurl(text string, noFiles bool) (*capture, error) {
	words, err := shellWords(text)
	if err != nil {
		return nil, err
	}
	l := &curlLine{capture: capture{header: make(http.Header)}, noFiles: noFiles}
	for rest := words[1:]; len(rest) > 0; {
		if rest, err = l.take(rest); err != nil {
			return nil, err
		}
	}
	return l.finish()
}

// take reads one option with its argument, or the URL, and returns the words
// that are left.
func (l *curlLine) take(words []string) ([]string, error) {
	word, rest := words[0], words[1:]
	if !strings.HasPrefix(word, "-") || word == "-" {
		l.url = word
		return rest, nil
	}
	name, argument, attached := word[:2], word[2:], len(word) > 2
	if name == "--" {
		name, argument, attached = strings.Cut(word, "=")
	}
	switch takes := strings.Contains(curlUsed+curlTakes, " "+name+" "); {
	case takes && attached:
	case takes && len(rest) == 0:
		return nil, fmt.Errorf("the option %s of the command lacks its argument", name)
	case takes:
		argument, rest = rest[0], rest[1:]
	case attached && !strings.HasPrefix(word, "--"): // -sS
		rest = append([]string{"-" + argument}, rest...)
	}
	return rest, l.option(name, argument)
}

// option takes over what an option says of the request.
func (l *curlLine) option(name, argument string) error {
	switch name {
	case "-G", "--get":
		l.inQuery = true
	case "-I", "--head":
		l.head = true
	case "--path-as-is":
		l.asTyped = true
	case "-L", "--location":
		l.notes = append(l.notes, "the command follows redirects (-L): a signature is for one URL")
	case "-X", "--request":
		l.method = argument
	case "-H", "--header":
		l.addHeader(argument)
	case "--url":
		l.url = argument
	case "-F", "--form", "--form-string":
		return fmt.Errorf("curl makes up the bytes of a body of %s when it sends it: capture the request as it is sent (curl --trace-ascii - shows it)", name)
	case "-T", "--upload-file":
		l.upload = true
		return l.addFile(name, argument)
	case "--data-urlencode":
		l.data = append(l.data, []byte(urlencoded(argument)))
	case "-d", "--data", "--data-ascii", "--data-raw", "--data-binary", "--json":
		l.json = l.json || name == "--json"
		if file, isFile := strings.CutPrefix(argument, "@"); isFile && name != "--data-raw" {
			return l.addFile(name, file)
		}
		l.data = append(l.data, []byte(argument))
	}
	return nil
}

// addHeader adds the argument of -H. Curl sends an empty header only if it ends in ";".
func (l *curlLine) addHeader(line string) {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		name, ok = strings.CutSuffix(line, ";")
	} else if value = strings.Trim(value, " \t"); strings.TrimSpace(value) == "" {
		return
	}
	if ok {
		l.header.Add(strings.TrimSpace(name), value)
	}
}

// addFile adds a file that an option names to the body. The options -d, --data and
// --data-ascii send it without its line ends and NULs.
func (l *curlLine) addFile(option, path string) error {
	if path == "-" {
		return errors.New("the command reads its body from standard input: write the body into a file and its name into the command")
	}
	if l.noFiles {
		return errors.New("the command names a file, and none is read here: write the body into the command, with --data-binary, or use card-explain in a terminal")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the body that the command names: %w", err)
	}
	if option == "-d" || option == "--data" || option == "--data-ascii" {
		short := strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(string(text))
		if len(short) < len(text) {
			l.notes = append(l.notes, "curl -d leaves the line ends of the file out of the body: use --data-binary @"+path)
		}
		text = []byte(short)
	}
	l.data = append(l.data, text)
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

// finish returns the request, once all options are known.
func (l *curlLine) finish() (*capture, error) {
	c := &l.capture
	if l.url == "" {
		return nil, errors.New("the command has no URL")
	}
	if err := c.address(l.url); err != nil {
		return nil, err
	}
	c.host = cmp.Or(c.header.Get("Host"), c.host)
	if !l.asTyped {
		c.squash()
	}
	separator := "&"
	if l.json {
		separator = ""
	}
	c.body = bytes.Join(l.data, []byte(separator))
	if l.inQuery && len(c.body) > 0 {
		separator = "?"
		if strings.Contains(c.target, "?") {
			separator = "&"
		}
		c.target, c.body = c.target+separator+string(c.body), nil
	}
	switch {
	case c.method != "":
	case l.head:
		c.method = http.MethodHead
	case l.upload:
		c.method = http.MethodPut
	case len(l.data) > 0 && !l.inQuery:
		c.method = http.MethodPost
	default:
		c.method = http.MethodGet
	}
	return c, nil
}

// squash resolves the dot segments of the path, as curl does.
func (c *capture) squash() {
	raw, query, hasQuery := strings.Cut(c.target, "?")
	if !strings.Contains(raw, "/.") {
		return
	}
	clean := path.Clean(raw)
	if strings.HasSuffix(raw, "/") && clean != "/" {
		clean += "/"
	}
	if clean == raw {
		return
	}
	c.notes = append(c.notes, "curl resolves the dots of the path unless --path-as-is is given: it sends "+clean)
	if c.target = clean; hasQuery {
		c.target += "?" + query
	}
}

// shellToken is the next part of a command: blanks, a line end after a backslash, a
// quoted part, an escaped character, or plain text.
var shellToken = regexp.MustCompile(`(?s)^(?:[ \t\r]+|\\\r?\n|\$'(?:[^'\\]|\\.)*'|'[^']*'|"(?:[^"\\]|\\.)*"|\\.?|\$|[^ \t\r\n|;&'"\\$]+)`)

// inDoubleQuotes undoes the escapes that a shell knows there.
var inDoubleQuotes = strings.NewReplacer("\\\n", "", `\\`, `\`, `\"`, `"`, `\$`, "$", "\\`", "`")

var errOpenQuote = errors.New("a quote of the command is never closed")

// shellWords splits a command into its words, as a POSIX shell does: quotes,
// backslashes, line ends after a backslash, and $'…', which browsers write.
// Nothing is expanded. The command ends at an unquoted line end, |, ; or &. With an
// unquoted caret it is one for cmd.
//
// A parser of shell scripts cannot be used: it drops the NULs and the carriage returns
// of a body, and refuses bytes that are not UTF-8.
func shellWords(text string) (words []string, err error) {
	whole, inWord := text, false
	for text != "" && strings.IndexByte("\n|;&", text[0]) < 0 {
		token := shellToken.FindString(text)
		if token == "" || token == "$" && strings.HasPrefix(text, "$'") {
			return nil, errOpenQuote
		}
		text = text[len(token):]
		part := token
		switch {
		case strings.Contains(" \t\r", token[:1]):
			inWord = false
			continue
		case token == `\` || token == "\\\n" || token == "\\\r\n":
			continue
		case token[0] == '\\':
			part = token[1:]
		case strings.HasPrefix(token, "$'"):
			part = unescapeC(token[2 : len(token)-1])
		case token[0] == '\'':
			part = token[1 : len(token)-1]
		case token[0] == '"':
			part = inDoubleQuotes.Replace(token[1 : len(token)-1])
		case strings.Contains(token, "^"):
			return cmdWords(whole)
		}
		if !inWord {
			words, inWord = append(words, ""), true
		}
		words[len(words)-1] += part
	}
	return words, nil
}

var (
	// caret is the next part of a command for cmd: what a caret escapes, a line end before
	// it included, a quoted part, in which a caret is none, or a character.
	caret = regexp.MustCompile(`(?s)^(?:\^(?:\r?\n)?\r?(.?)|("[^"\n]*"?)|(.))`)
	// argument is the next part of a command line for the C runtime of Windows: backslashes
	// that a quote follows, a quote inside quotes that is written twice, or a character.
	argument = regexp.MustCompile(`(?s)^(?:(\\*)("?")|.)`)
)

// cmdWords splits a command of Windows into its words, as cmd and then the C runtime do,
// for which browsers write ^". The command ends at an unquoted line end, |, &, < or >.
func cmdWords(text string) (words []string, err error) {
	line := ""
	for text != "" && strings.IndexByte("\r\n|&<>", text[0]) < 0 {
		part := caret.FindStringSubmatch(text)
		line, text = line+part[1]+part[2]+part[3], text[len(part[0]):]
	}
	inWord, quoted := false, false
	for line != "" {
		if !quoted && (line[0] == ' ' || line[0] == '\t') {
			line, inWord = line[1:], false
			continue
		}
		part := argument.FindStringSubmatch(line)
		word, used, slashes := part[0], len(part[0]), len(part[1])
		if part[2] != "" {
			word = part[1][:slashes/2]
			switch {
			case slashes%2 == 1:
				word, used = word+`"`, slashes+1
			case quoted && part[2] == `""`:
				word += `"`
			default:
				quoted, used = !quoted, slashes+1
			}
		}
		if line = line[used:]; !inWord {
			words, inWord = append(words, ""), true
		}
		words[len(words)-1] += word
	}
	if quoted {
		return nil, errOpenQuote
	}
	return words, nil
}

// unescapeC undoes the escapes of C. An unknown one stays as it is.
func unescapeC(text string) string {
	var b strings.Builder
	for text != "" {
		plain, _, _ := strings.Cut(text, `\`)
		b.WriteString(plain)
		if text = text[len(plain):]; text == "" {
			break
		}
		char, multibyte, rest, err := strconv.UnquoteChar(text, '\'')
		switch {
		case err != nil:
			b.WriteByte('\\')
			rest = text[1:]
		case multibyte || char < 0x80:
			b.WriteRune(char)
		default:
			b.WriteByte(byte(char))
		}
		text = rest
	}
	return b.String()
}
