-- The verification rules as one would write them by hand in nginx: the five
-- headers, the key, its status, the whitelist, the timestamp, the hash of the
-- body, the signature, the scope; then one script in Redis for the lock, the
-- nonce and the limit. Keys are cached for a minute.
local ffi = require 'ffi'
local lrucache = require 'resty.lrucache'
local redis = require 'redis'

ffi.cdef [[
unsigned char *SHA256(const unsigned char *d, size_t n, unsigned char *md);
const void *EVP_sha256(void);
unsigned char *HMAC(const void *evp_md, const void *key, int key_len, const unsigned char *d, size_t n,
                    unsigned char *md, unsigned int *md_len);
]]
local sha256 = ffi.C.EVP_sha256()
local digest = ffi.new('unsigned char[32]')

local M, config, keys = {}, nil, nil

function M.configure(c)
  config, keys = c, lrucache.new(20000)
end

local function hash(text)
  ffi.C.SHA256(text, #text, digest)
  return ngx.encode_base64(ffi.string(digest, 32))
end

local function sign(secret, text)
  ffi.C.HMAC(sha256, secret, #secret, text, #text, digest, nil)
  return ngx.encode_base64(ffi.string(digest, 32))
end

local statuses = {limited = 429, scope = 403, unavailable = 503}

local function refuse(reason)
  ngx.status = statuses[reason] or 401
  ngx.header['Content-Type'] = 'application/json'
  ngx.header['Cache-Control'] = 'no-store'
  ngx.print('{"success":false,"error":{"code":"', reason, '","message":"refused"}}')
  return ngx.exit(ngx.status)
end

local function list(text)
  local set = {}
  for word in text:gmatch('%S+') do set[word] = true end
  return set
end

local function find(id)
  local key = keys:get(id)
  if key then return key end
  local stored, err = redis.call(config.redis_port, 'HMGET', 'key:' .. id, 'secret', 'status', 'tenant', 'scopes', 'ips')
  if not stored then
    ngx.log(ngx.ERR, 'redis: ', err)
    return nil, 'unavailable'
  end
  if not stored[1] then return nil, 'unknown' end
  key = {secret = stored[1], status = stored[2], tenant = stored[3], scope_text = stored[4], scopes = list(stored[4]), ips = list(stored[5])}
  keys:set(id, key, 60)
  return key
end

function M.check()
  local headers = ngx.req.get_headers()
  local id, timestamp, nonce = headers['x-api-key'], headers['x-timestamp'], headers['x-nonce']
  local body_hash, signature = headers['x-body-hash'], headers['x-signature']
  if type(id) ~= 'string' or type(timestamp) ~= 'string' or type(nonce) ~= 'string' or #nonce > 256
    or type(body_hash) ~= 'string' or type(signature) ~= 'string' then
    return refuse('missing')
  end
  local key, reason = find(id)
  if not key then return refuse(reason) end
  if key.status ~= 'active' then return refuse('disabled') end
  if next(key.ips) and not key.ips[ngx.var.remote_addr] then return refuse('ip') end
  local at, now = tonumber(timestamp), ngx.time()
  if not at or math.abs(now - at) > 300 then return refuse('timestamp') end

  ngx.req.read_body()
  local failed = ''
  if hash(ngx.req.get_body_data() or '') ~= body_hash then
    failed = 'body'
  elseif sign(key.secret, ngx.req.get_method() .. '\n' .. ngx.var.request_uri .. '\n' .. timestamp .. '\n' .. nonce .. '\n' .. body_hash) ~= signature then
    failed = 'signature'
  end
  if failed == '' and not key.scopes['cards:write'] then return refuse('scope') end
  local lives = (math.max(300, at + 301 - now) + 10) * 1000
  local reply, err = redis.call(config.redis_port, 'EVALSHA', config.settle, 3, 'f:' .. id, 'n:' .. id .. ':' .. nonce, 'w:' .. id,
    failed, config.lock_after, lives, config.limit, config.limit_seconds)
  if not reply then
    ngx.log(ngx.ERR, 'redis: ', err)
    return refuse('unavailable')
  end
  ngx.header['X-RateLimit-Limit'] = config.limit
  ngx.header['X-RateLimit-Remaining'] = reply[2]
  ngx.header['X-RateLimit-Reset'] = now + config.limit_seconds
  if reply[1] ~= '' then return refuse(reply[1]) end
  ngx.req.set_header('X-Gateway-Key-Id', id)
  ngx.req.set_header('X-Gateway-Tenant', key.tenant)
  ngx.req.set_header('X-Gateway-Scopes', key.scope_text)
  ngx.req.set_header('X-Gateway-Operation', 'issue_card')
end

return M
