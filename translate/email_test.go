package translate

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func isEmail(text string) bool { return checkEmail(VariantA, []byte(text)) == "" }

// drawLabel draws a label of a host name, of n characters at most.
func drawLabel(t *rapid.T, n int) string {
	label := rapid.StringMatching(`[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`).Draw(t, "label")
	return strings.TrimRight(label[:min(n, len(label))], "-")
}

// drawEmail draws an address, as its local part and its labels.
func drawEmail(t *rapid.T) (local string, labels []string) {
	local = rapid.StringMatching("[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}(\\.[a-z]{1,20}){0,2}").Draw(t, "local")
	if rapid.Bool().Draw(t, "international") {
		local += string(rapid.RuneFrom(nil, unicode.Han, unicode.Hangul, unicode.Cyrillic).Filter(func(r rune) bool { return !invisible(r) }).Draw(t, "letter"))
	}
	for range rapid.IntRange(1, 3).Draw(t, "labels") {
		label := drawLabel(t, 40)
		if len(label) > 3 && label[2:4] == "--" {
			label = "x" // reserved, such as xn--
		}
		labels = append(labels, label)
	}
	return local, labels
}

// TestEmails: every address that RFC 5321 and RFC 1123 allow is accepted.
func TestEmails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		local, labels := drawEmail(t)
		if text := local + "@" + strings.Join(labels, "."); !isEmail(text) {
			t.Fatalf("%q is refused", text)
		}
	})
}

// TestEmailsWithOneFault: one character or length outside of the classes makes
// any address wrong.
func TestEmailsWithOneFault(t *testing.T) {
	const inLabels = "!#$%&'*+/=?^_`{|}~()<>[]:;@\\,\" \t\x00\x7f"
	unseen := rapid.RuneFrom(nil, unicode.Cf, unicode.Cc, unicode.Z, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
	insert := func(t *rapid.T, s, what string) string {
		runes := []rune(s)
		at := rapid.IntRange(0, len(runes)).Draw(t, "at")
		return string(runes[:at]) + what + string(runes[at:])
	}
	faults := map[string]func(t *rapid.T, local *string, label *string){
		"unseen in the local part": func(t *rapid.T, local, _ *string) { *local = insert(t, *local, string(unseen.Draw(t, "unseen"))) },
		"unseen in the host":       func(t *rapid.T, _, label *string) { *label = insert(t, *label, string(unseen.Draw(t, "unseen"))) },
		"special in the local part": func(t *rapid.T, local, _ *string) {
			*local = insert(t, *local, string(rapid.SampledFrom([]rune("()<>[]:;@\\,\" ")).Draw(t, "c")))
		},
		"no letter in the host": func(t *rapid.T, _, label *string) {
			*label = insert(t, *label, string(rapid.SampledFrom([]rune(inLabels)).Draw(t, "c")))
		},
		"dot at the start":             func(_ *rapid.T, local, _ *string) { *local = "." + *local },
		"dot at the end":               func(_ *rapid.T, local, _ *string) { *local += "." },
		"two dots":                     func(t *rapid.T, local, _ *string) { *local += "..x" },
		"no local part":                func(_ *rapid.T, local, _ *string) { *local = "" },
		"local part too long":          func(t *rapid.T, local, _ *string) { *local = strings.Repeat("x", rapid.IntRange(65, 200).Draw(t, "n")) },
		"label empty":                  func(_ *rapid.T, _, label *string) { *label = "" },
		"label too long":               func(t *rapid.T, _, label *string) { *label = strings.Repeat("x", rapid.IntRange(64, 150).Draw(t, "n")) },
		"hyphen at a label's start":    func(_ *rapid.T, _, label *string) { *label = "-" + *label },
		"hyphen at a label's end":      func(_ *rapid.T, _, label *string) { *label += "-" },
		"international label too long": func(_ *rapid.T, _, label *string) { *label = strings.Repeat("é", 60) },
		"host in another spelling": func(t *rapid.T, _, label *string) {
			*label += rapid.SampledFrom([]string{"ａ", "ſ", "\u212a", "ﬁ", "²"}).Draw(t, "letter")
		},
	}
	for name, spoil := range faults {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				local, labels := drawEmail(t)
				spoil(t, &local, &labels[rapid.IntRange(0, len(labels)-1).Draw(t, "which")])
				if text := local + "@" + strings.Join(labels, "."); isEmail(text) {
					t.Fatalf("%q is taken", text)
				}
			})
		})
	}
}

// TestKnownEmails: addresses that other implementations judge wrongly, and
// those of the test suite of JSON Schema.
func TestKnownEmails(t *testing.T) {
	long := strings.Repeat("a", 60)
	for text, want := range map[string]bool{
		"joe.bloggs@example.com": true, "te~st@example.com": true, "~test@example.com": true, "test~@example.com": true, "te.s.t@example.com": true,
		"test@255.255.255.255": true, "test@c--n.com": true, "test@123.com": true, "test@io": true, "o'brien+x@example.com": true,
		"customer/department=shipping@example.com": true, "$A12345@example.com": true, "!def!xyz%abc@example.com": true, "_somename@example.com": true,
		"실례@실례.테스트": true, "伊昭傑@郵件.商務": true, "राम@मोहन.ईन्फो": true, "юзер@екзампл.ком": true, "θσερ@εχαμπλε.ψομ": true, "zoe@MÜNCHEN.de": true,
		"zoe@xn--mnchen-3ya.de": true, "zoe@XN--mnchen-3ya.de": true, "a@r3---sn-apo3qvuoxuxbt-j5pe.example": true, "😀@example.com": true,
		strings.Repeat("a", 64) + "@example.com": true, "a@" + strings.Repeat("a", 63) + ".com": true,
		"valid@" + long + "." + long + "." + long + "." + long + "a.com": true,

		"user\u200b@example.com": false, "user@example.com\u202e": false, "user\u202e@example.com": false, "us\u2800er@example.com": false,
		"a@invalid=domain.com": false, "a@exa_mple.com": false, "a@-example.com": false, "a@example-.com": false,
		strings.Repeat("a", 65) + "@example.com": false, "a@" + strings.Repeat("a", 64) + ".com": false,
		"valid@" + long + "." + long + "." + long + "." + long + "aa.com": false,
		"2962": false, ".test@example.com": false, "test.@example.com": false, "te..st@example.com": false, "a@b@c.org": false,
		`"joe bloggs"@example.com`: false, "joe.bloggs@[127.0.0.1]": false, "joe.bloggs@[IPv6:::1]": false, "a@[]": false, "test@a[1.2.3.4]": false,
		"user1@oceania.org, user2@oceania.org": false, "Winston <winston@recdep.minitrue>": false, "a\uff20iana.org": false, "a,b@iana.org": false,
		"test@iana.org\n": false, " a@iana.org": false, "a\tb@iana.org": false, "\x7f@iana.org": false, "test(comment)@iana.org": false, "a@b(c).org": false,
		"test@.iana.org": false, "test@iana.org.": false, "test@iana..com": false, "@example.com": false, "joe@": false, "": false, "@": false,
		"a@xn--a": false, "a@xn--": false, "a@exam\u3002com": false, "IP-and-port@127.0.0.1:25": false, "a@نامه\u200cای.com": false,
	} {
		if isEmail(text) != want {
			t.Errorf("%q: taken %v, want %v", text, !want, want)
		}
	}
}
