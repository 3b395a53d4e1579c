package explain

// explainer collects the findings of a case.
type explainer struct {
	*Case
	found []Finding
}

func (e *explainer) add(kind Kind, subject string) {
	e.found = append(e.found, Finding{Kind: kind, Subject: subject})
}

// addForm adds what is wrong with the form of a header.
func (e *explainer) addForm(f *form, header string) {
	for _, kind := range f.kinds {
		e.add(kind, header)
	}
}
