package auth

// OtherOperation is the name of the operation of every path that no pattern
// matches. Only a key with the scope "*" may use it.
const OtherOperation = "other"

// SensitiveOperation is the name of the operation that returns card numbers.
const SensitiveOperation = "get_sensitive_card"

// An Operation is what a request asks for: a named set of methods and paths
// with a scope. Limits, scopes, metrics and logs name an endpoint by the name
// of its operation.
type Operation struct {
	Name    string
	Scope   string
	MaxBody int64 // largest body in bytes; 0: what the site allows
	Index   int   // in [Table.Operations], for arrays with one entry per operation
}

// An OperationDef defines one method and pattern of an operation. Definitions
// with the same name make one operation together.
type OperationDef struct {
	Name    string // [a-z][a-z0-9_]*
	Method  string // GET, POST, PUT, PATCH or DELETE; GET also means HEAD
	Pattern string // below /api/v1/, a {placeholder} stands for one segment
	Scope   string // resource:action
	MaxBody int64  // largest body in bytes; 0: what the site allows
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
