package auth

// OtherOperation is the name of the operation of every path that no pattern
// matches. Only a key with the scope "*" may use it.
const OtherOperation = "other"

// SensitiveOperation is the name of the operation that returns card numbers.
const SensitiveOperation = "get_sensitive_card"

// The operations that the gateway answers itself, for the holder of any key.
const (
	KeyOperation    = "gateway_key"    // what the key is, and what is left of its limits
	EchoOperation   = "gateway_echo"   // what was signed, and what the gateway read
	RotateOperation = "gateway_rotate" // a new secret
)

// An Operation is what a request asks for: a named set of methods and paths.
// Limits, metrics and logs name an endpoint by the name of its operation. The
// scope that a request needs is that of the route that it matches.
type Operation struct {
	Name    string
	Scopes  []string // of its routes, each once; [ScopeAll] for "other"
	Routes  []Route  // as they were defined; none for "other"
	MaxBody int64    // largest body in bytes; 0: what the site allows
	Index   int      // in [Table.Operations], for arrays with one entry per operation
	Own     bool     // the gateway answers it itself; it must never reach an issuer
}

// A Route is one method and path pattern of an operation, with the scope that
// its requests need: [ScopeNone] where the operation is Own.
type Route struct{ Method, Pattern, Scope string }

// An OperationDef defines one method and pattern of an operation. Definitions
// with the same name make one operation together, and each keeps its scope.
type OperationDef struct {
	Name    string // [a-z][a-z0-9_]*
	Method  string // GET, POST, PUT, PATCH or DELETE; GET also means HEAD
	Pattern string // below /api/v1/; a {placeholder} stands for one segment
	Scope   string // resource:action
	MaxBody int64  // largest body of the operation in bytes; 0: that of another definition, or what the site allows
}

// builtinOperations are the operations whose paths the published interface
// shows.
func builtinOperations() []OperationDef {
	return []OperationDef{
		{Name: "create_customer", Method: "POST", Pattern: "/api/v1/Customers", Scope: "customers:write"},
		{Name: "issue_card", Method: "POST", Pattern: "/api/v1/cards", Scope: "cards:write"},
		{Name: "get_card", Method: "GET", Pattern: "/api/v1/cards/{cardId}", Scope: "cards:read"},
		{Name: SensitiveOperation, Method: "GET", Pattern: "/api/v1/cards/{cardId}/sensitive", Scope: ScopeSensitive},
		{Name: SensitiveOperation, Method: "GET", Pattern: "/api/v1/card/{cardId}/sensitive", Scope: ScopeSensitive},
		{Name: "unfreeze_card", Method: "POST", Pattern: "/api/v1/cards/{cardId}/unfreeze", Scope: "cards:write"},
		{Name: "get_card_balance", Method: "GET", Pattern: "/api/v1/cards/{cardId}/balance", Scope: "cards:read"},
		{Name: "list_transactions", Method: "GET", Pattern: "/api/v1/transactions", Scope: "transactions:read"},
		{Name: "list_customer_transactions", Method: "GET", Pattern: "/api/v1/customers/{customerId}/transactions", Scope: "transactions:read"},
	}
}

// ownOperations are the operations that the gateway answers itself. Their paths
// are outside of /api/v1/, which is the issuer's, and no configuration changes
// them.
func ownOperations() []OperationDef {
	return []OperationDef{
		{Name: KeyOperation, Method: "GET", Pattern: "/gateway/v1/key", Scope: ScopeNone},
		{Name: EchoOperation, Method: "POST", Pattern: "/gateway/v1/echo", Scope: ScopeNone},
		{Name: RotateOperation, Method: "POST", Pattern: "/gateway/v1/key/rotate", Scope: ScopeNone},
	}
}
