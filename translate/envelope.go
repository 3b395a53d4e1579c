package translate

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// envelope converts an envelope, whose opening bracket has been read.
func (a *answer) envelope(token) error {
	a.bareRecord = false
	a.startOutput()
	for {
		name, err := a.next()
		if err != nil {
			return err
		}
		if name.kind == '}' {
			a.closeEnvelope(name)
			return nil
		}
		if err = a.member(name); err != nil {
			return err
		}
	}
}

// member converts one member of the envelope, whose name has been read.
func (a *answer) member(name token) error {
	known := envelopeNames.known(a.text(name))
	switch written := string(a.text(name)); {
	case known == "" || written == known:
	case written == "requestId":
		a.replace(name, known)
	default:
		return errSpelled
	}
	value, err := a.next()
	if err != nil {
		return err
	}
	switch known {
	case "data":
		a.data, err = a.part(value, a.payload)
	case "pagination":
		a.pagination, err = a.part(value, a.pages)
	case "request_id":
		err = a.own(value, &a.requestID)
	case "timestamp":
		err = a.own(value, &a.timestamp)
	default:
		_, err = a.skip(value)
	}
	return err
}

// part converts a value and returns its place in the output.
func (a *answer) part(value token, convert func(token) (end int, err error)) (*piece, error) {
	a.upTo(value.start)
	start := len(a.out)
	end, err := convert(value)
	if err != nil {
		return nil, err
	}
	a.upTo(end)
	return &piece{start, len(a.out)}, nil
}

// own keeps a value that the issuer set in the envelope, and sets seen.
func (a *answer) own(value token, seen *bool) error {
	if *seen {
		return errTwice
	}
	*seen = true
	_, err := a.skip(value)
	return err
}

// pages converts a pagination object to its published names, which are the same
// in every variant: the published interface, Pagination object.
func (a *answer) pages(value token) (end int, err error) {
	if value.kind != '{' {
		return a.skip(value)
	}
	hasMore := false
	for {
		name, err := a.next()
		if err != nil || name.kind == '}' {
			return name.end, err
		}
		known := paginationNames.known(a.text(name))
		switch written := string(a.text(name)); {
		case known == "" || written == known:
		case written == "has_more":
			a.replace(name, known)
		default:
			return 0, errSpelled
		}
		if known == "hasMore" {
			if hasMore {
				return 0, errTwice
			}
			hasMore = true
		}
		if value, err = a.next(); err != nil {
			return 0, err
		}
		if _, err = a.skip(value); err != nil {
			return 0, err
		}
	}
}

// closeEnvelope completes the output at the bracket that closes the envelope.
func (a *answer) closeEnvelope(bracket token) {
	a.upTo(bracket.start)
	if a.opt.Variant != VariantC {
		a.complete()
		a.upTo(len(a.src))
		return
	}
	data := a.out[a.data.start:a.data.end]
	if !a.isList || a.pagination == nil {
		a.out = data
		return
	}
	pagination := a.out[a.pagination.start:a.pagination.end]
	list := make([]byte, 0, len(data)+len(pagination)+32)
	list = append(append(list, `{"data":`...), data...)
	list = append(append(list, `,"pagination":`...), pagination...)
	a.out = append(list, '}')
}

// complete adds the members of an envelope that the issuer did not send.
func (a *answer) complete() {
	if !a.requestID {
		a.out = append(a.out, `,"request_id":`...)
		// The error only reports that invalid UTF-8 in the id was replaced.
		a.out, _ = jsontext.AppendQuote(a.out, a.opt.RequestID)
	}
	if !a.timestamp {
		a.out = append(a.out, `,"timestamp":"`...)
		a.out = a.opt.Now.UTC().AppendFormat(a.out, time.RFC3339)
		a.out = append(a.out, '"')
	}
}
