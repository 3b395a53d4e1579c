package explain

import "strings"

// Kinds returns the whole closed set.
func Kinds() []Kind {
	all := make([]Kind, kindCount)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String returns the name of the mistake, such as "target_without_query". It is
// the value of "finding" in error.details.
func (k Kind) String() string { return k.row().name }

func (k Kind) row() *kindRow {
	if k >= kindCount {
		k = SignatureUnexplained
	}
	return &kindTable[k]
}

// A Finding is a mistake that was found in a request.
type Finding struct {
	Kind Kind
	// Subject is what the sentence is about: the name of a header or a part, a
	// number, a time. It never is the value of a header.
	Subject string
}

// Sentence says what is wrong, in one sentence.
func (f Finding) Sentence() string { return f.fill(f.Kind.row().sentence) }

// Remedy says what to do about it.
func (f Finding) Remedy() string { return f.fill(f.Kind.row().remedy) }

// Text returns the sentence and the remedy.
func (f Finding) Text() string { return f.Sentence() + ". " + f.Remedy() + "." }

func (f Finding) fill(text string) string { return strings.ReplaceAll(text, "[subject]", f.Subject) }

// Sentences returns the sentences of the findings in one line, for a log.
func Sentences(findings []Finding) string {
	all := make([]string, len(findings))
	for i := range findings {
		all[i] = findings[i].Sentence()
	}
	return strings.Join(all, "; ")
}
