package explain

import "strings"

// A Kind is one member of the closed set of mistakes: an index of kindTable.
type Kind uint8

// kindTable has how each mistake is called and what is said of it. The text
// [subject] stands for the finding's Subject.
var kindTable []kindRow

type kindRow struct{ name, sentence, remedy string }

// newKind adds a mistake to the set. Only the declarations below call it.
func newKind(name, sentence, remedy string) Kind {
	kindTable = append(kindTable, kindRow{name, sentence, remedy})
	return Kind(len(kindTable) - 1)
}

const (
	sendBase64 = "Send the 32 bytes of [subject] in standard base64 with padding: 44 characters, the last one ="
	signAsSent = "Sign the path and the query exactly as they are on the request line"
	sameBytes  = "Serialise the body once, hash these bytes and send these bytes"
	fiveParts  = "Join method, path with query, timestamp, nonce and body hash with one line feed each, and add nothing"
	setClock   = "Set the clock of the client by NTP, or take the time from the Date header of any answer; Unix seconds are the same in every time zone"
	asShown    = "Use the text of the secret, exactly as it was shown, as the HMAC key"
)

// The mistakes, in the order in which a request meets the rules.
var (
	SecretSent            = newKind("secret_sent", "the request holds the secret itself", "Send the signature and never the secret; rotate the key now, because others have seen the secret")
	TimestampMilliseconds = newKind("timestamp_in_milliseconds", "X-Timestamp is in milliseconds", "Divide by 1000 and round down: ten digits")
	TimestampISO          = newKind("timestamp_iso_8601", "X-Timestamp is a date and not a number", "Send Unix seconds: ten digits")
	TimestampForm         = newKind("timestamp_form", "X-Timestamp is not a number of ten digits", "Send the current time in Unix seconds")
	TimestampBehind       = newKind("timestamp_behind", "X-Timestamp is [subject] s behind our clock", setClock+"; sign right before sending")
	TimestampAhead        = newKind("timestamp_ahead", "X-Timestamp is [subject] s ahead of our clock", setClock)
	TimestampMoved        = newKind("timestamp_before_move", "the nonces of that moment stayed in the store that the key was copied from", "Sign the request anew")
	NonceUsed             = newKind("nonce_used", "X-Nonce was used by a request that was accepted", "Make a new nonce and a new timestamp for each attempt; a fixed nonce hides what else is wrong")

	FormHex        = newKind("form_hexadecimal", "[subject] is hexadecimal", sendBase64)
	FormHexText    = newKind("form_base64_of_hexadecimal", "[subject] is the base64 of the hexadecimal text", "Take the raw bytes of the digest and not its hexadecimal text; send 44 characters")
	FormBase64URL  = newKind("form_base64url", "[subject] is in the URL-safe alphabet of base64", "Use the standard alphabet, with + and / instead of - and _")
	FormUnpadded   = newKind("form_without_padding", "[subject] lacks the = at its end", sendBase64)
	FormPrefix     = newKind("form_prefix", "[subject] has a prefix before its base64", "Send the base64 alone, without the name of an algorithm")
	FormQuotes     = newKind("form_quotes", "[subject] is in quotes", "Send it without quotes")
	FormLineFeed   = newKind("form_line_feed", "[subject] ends in a line feed", "Take the line feed away that the encoder has added")
	FormEscaped    = newKind("form_percent_encoded", "[subject] is percent-encoded", "Send + / and = as they are: a header is no part of a URL")
	FormBlank      = newKind("form_blank", "[subject] holds a blank", "Do not decode a + as a blank, and do not break the base64 into lines")
	FormCase       = newKind("form_letter_case", "[subject] is right but for its letter case", "Change neither lower nor upper case: base64 has both")
	FormTwice      = newKind("form_base64_twice", "[subject] is the base64 of a base64", "Encode the 32 bytes once; send 44 characters")
	FormLength     = newKind("form_length", "[subject] does not hold 32 bytes, which a SHA-256 has", "Use SHA-256, not SHA-1 or SHA-512, and cut nothing off; send 44 characters")
	FormSpelling   = newKind("form_spelling", "[subject] is not the one spelling of its 32 bytes", sendBase64)
	FormUnreadable = newKind("form_unreadable", "[subject] is not base64", sendBase64)

	HashOfHex           = newKind("hash_of_hexadecimal", "X-Body-Hash is the hash of the hexadecimal text of the hash", "Encode the raw bytes of the first digest in base64")
	HashOfNothing       = newKind("hash_of_nothing", "X-Body-Hash is the hash of no bytes, and a body of [subject] bytes came", "Hash the bytes of the body that is sent")
	HashOfText          = newKind("hash_of_text", "X-Body-Hash is the hash of the text [subject]", "Hash the bytes of the body that is sent; without a body hash no bytes")
	HashIsBody          = newKind("hash_is_body", "X-Body-Hash is the body itself", "Send the base64 of the SHA-256 of the body")
	BodyAbsent          = newKind("body_absent", "no body came, and X-Body-Hash is not the hash of no bytes", "Send the body that was hashed, with Content-Length; without a body send the hash of no bytes")
	BodyFinalLineFeed   = newKind("body_final_line_feed", "the body that came is the hashed one with a line feed at its end", "Hash and send the same bytes: curl -d @file and echo treat line feeds in their own way")
	BodyNoFinalLineFeed = newKind("body_without_final_line_feed", "the body that came is the hashed one without the line feed at its end", "Hash and send the same bytes: echo adds a line feed, printf %s does not")
	BodyCRLF            = newKind("body_crlf", "the body that came has CR LF where the hashed one has LF", "Send the bytes that were hashed, as binary and not as text")
	BodyLF              = newKind("body_lf", "the body that came has LF where the hashed one has CR LF", "Send the bytes that were hashed, as binary and not as text; curl needs --data-binary")
	BodyBOM             = newKind("body_byte_order_mark", "the body that came and the hashed one differ by a byte order mark", "Write the body in UTF-8 without a byte order mark")
	BodyLatin1          = newKind("body_charset", "the body was hashed in one of UTF-8 and Latin-1 and sent in the other", "Encode the body in UTF-8 once, hash these bytes and send them")
	BodyCompact         = newKind("body_reserialised_compact", "the hashed body is the JSON that came, without blanks", sameBytes)
	BodyIndented        = newKind("body_reserialised_indented", "the hashed body is the JSON that came, indented by [subject]", sameBytes)
	BodyOrder           = newKind("body_names_order", "the hashed body is the JSON that came, with its names in another order", sameBytes)
	BodyString          = newKind("body_json_string", "the body that came is a JSON string that holds the hashed JSON", sameBytes+"; give the library the bytes and not a text that it serialises again")
	BodyEscaped         = newKind("body_escapes", `the body was hashed and sent with other escapes of JSON, such as \u00eb for ë or \/ for /`, sameBytes)
	BodyNumbers         = newKind("body_numbers", "the body was hashed and sent with other forms of its numbers, such as 1.0 and 1", sameBytes)
	BodyCompressed      = newKind("body_compressed", "the body was compressed after it was hashed", "Hash the compressed bytes, or send the body without Content-Encoding")
	BodyCut             = newKind("body_cut", "the body that came lacks the last bytes of the hashed one", "Count Content-Length in bytes and not in characters, or let the library write it")
	BodyBoundary        = newKind("body_boundary", "the body that came is a form and not the one that was hashed; a form that is built twice has two boundaries", "Build the form once as bytes, hash these bytes and send them with their Content-Type")
	BodyChanged         = newKind("body_changed", "the signature over the sent X-Body-Hash is right, so the body changed on its way or was serialised again after signing", sameBytes+"; look for a proxy that rewrites bodies")
	BodyDiffers         = newKind("body_differs", "X-Body-Hash is not the hash of the [subject] bytes that came", sameBytes)

	SecretRetired        = newKind("secret_retired", "the client still signs with secret version [subject]", "Give the client the newest secret of the key")
	TargetNoQuery        = newKind("target_without_query", "the path was signed without its query", signAsSent)
	TargetFullURL        = newKind("target_full_url", "the full URL was signed in the place of path and query", signAsSent)
	TargetHost           = newKind("target_with_host", "the host was signed before the path", signAsSent)
	TargetPrefix         = newKind("target_with_prefix", "the path was signed with [subject] before it, which did not arrive", signAsSent+"; if a proxy takes it away, sign the path that the gateway receives")
	TargetNoBase         = newKind("target_without_base", "the path was signed without [subject]", signAsSent+", the base path included")
	TargetQueryApart     = newKind("target_query_apart", "the query was signed on a line of its own", signAsSent)
	TargetFragment       = newKind("target_with_fragment", "the part of the URL from # on was signed and not sent", signAsSent)
	TargetDecoded        = newKind("target_decoded", "the path or the query was signed percent-decoded", signAsSent)
	TargetReencoded      = newKind("target_reencoded", "the path or the query was signed with other percent escapes than were sent", signAsSent)
	TargetSorted         = newKind("target_sorted", "the query was signed with its parameters sorted", signAsSent)
	TargetPlus           = newKind("target_plus", "a blank of the query was signed as [subject]", signAsSent)
	TargetQuestionMark   = newKind("target_question_mark", "a lone ? at the end was signed and not sent, or sent and not signed", "Leave the ? out where no query follows")
	TargetSlash          = newKind("target_trailing_slash", "a slash at the end of the path was signed and not sent, or sent and not signed", signAsSent)
	TargetCase           = newKind("target_letter_case", "the path was signed in lower case", signAsSent)
	MethodCase           = newKind("method_lower_case", "the method was signed in lower case", "Sign the method in upper case")
	MethodOther          = newKind("method_other", "the method [subject] was signed and another one sent", "Sign the method that is sent; do not follow redirects, which change it")
	TextFinalLineFeed    = newKind("text_final_line_feed", "the string to sign had a line feed at its end", fiveParts)
	TextCRLF             = newKind("text_crlf", "the parts of the string to sign were joined by CR LF", fiveParts)
	TextBackslashN       = newKind("text_backslash_n", `the parts of the string to sign were joined by the two characters \n`, "Write a line feed, the byte 0x0A; single quotes of many languages do not")
	TextNoSeparators     = newKind("text_separators", "the parts of the string to sign were joined by [subject]", fiveParts)
	TextOrder            = newKind("text_order", "the parts of the string to sign were in the order [subject]", fiveParts)
	TextMissingPart      = newKind("text_missing_part", "the string to sign lacked the [subject]", fiveParts)
	TextExtra            = newKind("text_extra_part", "the string to sign held [subject] too", fiveParts)
	TextUTF16            = newKind("text_utf16", "the string to sign was encoded in UTF-16", "Encode it in UTF-8")
	TextHashed           = newKind("text_hashed", "the SHA-256 of the string to sign was signed in its place", "Give HMAC-SHA256 the string to sign itself")
	TextKeyID            = newKind("text_key_id", "the string to sign held the key id", fiveParts)
	SignedTimestamp      = newKind("text_timestamp", "the timestamp was signed in another form than X-Timestamp has: [subject]", "Make the timestamp once and use the same text in the header and in the string to sign")
	SignedNonce          = newKind("text_nonce", "the nonce was signed in another form than X-Nonce has: [subject]", "Make the nonce once and use the same text in the header and in the string to sign")
	SignedHash           = newKind("text_body_hash", "another body hash was signed than X-Body-Hash has: [subject]", "Make the body hash once and use the same text in the header and in the string to sign")
	SignedBody           = newKind("text_body", "the body was signed in the place of its hash", fiveParts)
	SecretBase64         = newKind("secret_base64_decoded", "the secret was decoded from base64 before it was used", asShown)
	SecretBase32         = newKind("secret_base32_decoded", "the secret was decoded from base32 before it was used", asShown)
	SecretHex            = newKind("secret_hex_decoded", "the secret was decoded from hexadecimal before it was used", asShown)
	SecretLineFeed       = newKind("secret_line_feed", "the secret was used with a line feed at its end", "Take the line feed away: printf %s writes none, and an editor adds one to a file")
	SecretBlank          = newKind("secret_blank", "the secret was used with [subject] around it", asShown)
	SecretEncoded        = newKind("secret_encoded", "the secret was encoded in [subject] before it was used", asShown)
	SecretSwapped        = newKind("secret_swapped", "the string to sign was used as the HMAC key, and the secret as the message", "Swap the two arguments: the secret is the key")
	SignatureHash        = newKind("signature_plain_hash", "the signature is the SHA-256 of secret and string to sign put together", "Use HMAC-SHA256 with the secret as its key")
	SignatureAlgorithm   = newKind("signature_algorithm", "the signature was made by HMAC-[subject]", "Use HMAC-SHA256")
	SecretQuotes         = newKind("secret_quotes", "the secret was used with quotes around it", asShown)
	SecretEmpty          = newKind("secret_empty", "the secret was empty", "Check that the program gets the secret: an environment variable may not be set")
	SecretPlaceholder    = newKind("secret_placeholder", "the text [subject] was used as the secret", "Check that the program gets the secret: a variable may not be set, or not be expanded")
	SecretKeyID          = newKind("secret_is_key_id", "the key id was used as the secret", asShown)
	SignatureUnexplained = newKind("signature_unexplained", "the signature is not that of the request as it arrived, and none of the usual mistakes explains it", "Compare string_to_sign with the string that was signed byte by byte; if they are equal, the secret is another one")
)

// Kinds returns the whole closed set.
func Kinds() []Kind {
	all := make([]Kind, len(kindTable))
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String returns the name of the mistake, such as "target_without_query". It is
// the value of "finding" in error.details.
func (k Kind) String() string { return k.row().name }

func (k Kind) row() *kindRow {
	if int(k) >= len(kindTable) {
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
