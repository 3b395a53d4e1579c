package explain

// A Kind is one member of the closed set of mistakes.
type Kind uint8

// The mistakes, in the order in which a request meets the rules.
const (
	SecretSent Kind = iota
	TimestampMilliseconds
	TimestampISO
	TimestampForm
	TimestampBehind
	TimestampAhead
	TimestampMoved
	NonceUsed

	FormHex
	FormHexText
	FormBase64URL
	FormUnpadded
	FormPrefix
	FormQuotes
	FormLineFeed
	FormEscaped
	FormBlank
	FormCase
	FormLength
	FormSpelling
	FormUnreadable

	HashOfHex
	HashOfNothing
	HashIsBody
	BodyAbsent
	BodyFinalLineFeed
	BodyNoFinalLineFeed
	BodyCRLF
	BodyLF
	BodyBOM
	BodyLatin1
	BodyCompact
	BodyIndented
	BodyChanged
	BodyDiffers

	SecretRetired
	TargetNoQuery
	TargetFullURL
	TargetHost
	TargetNoBase
	TargetDecoded
	TargetReencoded
	TargetSorted
	TargetPlus
	TargetQuestionMark
	TargetSlash
	TargetCase
	MethodCase
	MethodOther
	TextFinalLineFeed
	TextCRLF
	TextBackslashN
	TextNoSeparators
	TextOrder
	TextMissingPart
	TextKeyID
	SignedTimestamp
	SignedHash
	SignedBody
	SecretBase64
	SecretBase32
	SecretHex
	SecretLineFeed
	SecretQuotes
	SecretEmpty
	SecretKeyID
	SignatureUnexplained
	kindCount
)

// A kindRow is how a mistake is called and what is said of it. The text
// [subject] stands for the finding's Subject.
type kindRow struct{ name, sentence, remedy string }
