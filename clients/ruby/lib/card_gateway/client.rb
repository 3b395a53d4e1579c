# frozen_string_literal: true

require "json"
require "net/http"
require "securerandom"

module CardGateway
  # An answer; the names of its headers are in lower case.
  Answer = Struct.new(:status, :headers, :body) do
    # Returns the JSON of the body.
    def json
      JSON.parse(body.dup.force_encoding(Encoding::UTF_8))
    end
  end

  # What a request carries. It is built once: what is signed is what is sent.
  Body = Struct.new(:content_type, :bytes) do
    # Returns a value as JSON.
    def self.json(value)
      new("application/json", JSON.generate(value).b)
    end

    # Returns a form; files has the name and the content of the file of each field.
    def self.form(fields, files)
      boundary = SecureRandom.hex(16)
      quoted = ->(name) { name.to_s.gsub(/["\r\n]/, '"' => "%22", "\r" => "%0D", "\n" => "%0A").b }
      bytes = "".b
      fields.each do |name, value|
        bytes << "--#{boundary}\r\nContent-Disposition: form-data; name=\"" << quoted[name] << "\"\r\n\r\n" << value.to_s.b << "\r\n"
      end
      files.each do |name, (filename, content)|
        bytes << "--#{boundary}\r\nContent-Disposition: form-data; name=\"" << quoted[name] << "\"; filename=\"" << quoted[filename] \
              << "\"\r\nContent-Type: application/octet-stream\r\n\r\n" << content.b << "\r\n"
      end
      new("multipart/form-data; boundary=#{boundary}", bytes << "--#{boundary}--\r\n")
    end
  end

  # Calls the card API of one gateway with one key, from any number of threads.
  # Each attempt has a connection of its own.
  class Client
    # timeout is for each wait on the network, in seconds; the other options are
    # those of Policy.
    def initialize(base_url, key_id, secret, timeout: 30, **options)
      @policy = Policy.new(base_url, key_id, secret, **options)
      @timeout = timeout
    end

    # Reads the path with the parameters of the query.
    def get(path, query = {})
      request("GET", Client.with_query(path, query))
    end

    # Sends a value as JSON; nil for no body.
    def post(path, value = nil)
      request("POST", path, body: value.nil? ? nil : Body.json(value))
    end

    # Sends a value as JSON.
    def patch(path, value)
      request("PATCH", path, body: Body.json(value))
    end

    # Sends a form; files has the name and the content of the file of each field.
    def upload(path, fields, files)
      request("POST", path, body: Body.form(fields, files))
    end

    # Sends a request; path is escaped, call what new_call has returned, if it was
    # stored. Raises UnsignableError, ConnectionError, UnprovenError, RedirectError,
    # ApiError, TakenError or UnknownError.
    def request(method, path, body: nil, headers: {}, call: nil)
      verb = method.upcase
      target = @policy.base.path + path
      exchange = @policy.begin(verb, call)
      loop do
        signed = exchange.sign(target, body ? body.bytes : "")
        request = build(verb, target, body, headers.merge(signed))
        wait = begin
          answer = attempt(request)
          exchange.after_answer(answer) || (return judge(answer))
        rescue Failure => e
          exchange.after_failure(e.sent, e) || raise(ConnectionError.new(e.sent, exchange.attempts, e))
        end
        sleep(wait)
      end
    end

    # Returns a nonce and a timestamp for a request, to be stored before it is sent.
    def new_call
      @policy.new_call
    end

    # Makes sure that a call whose outcome is not known is never executed. Returns if
    # it was not, and never will be. Raises TakenError if it was taken before, and
    # UnknownError if that cannot be found out any more; every other error decides
    # nothing.
    def close_call(call)
      passed = UnknownError.new(call, 0, "its time has passed, so that nothing can execute it any more, and the gateway has forgotten its nonce")
      raise passed if new_call.timestamp > call.until

      # With the timestamp of the call: a gateway that has lost its nonce refuses that.
      closed = request("POST", "/gateway/v1/nonce/close", call: call).json["data"]
      raise passed if closed["nonce"] != call.nonce # the timestamp was refused, and another nonce signed
    rescue TakenError => e
      raise e unless e.perhaps_by_us?

      raise UnknownError.new(call, 0, e.message)
    end

    # Returns the path with the parameters that are not nil, each escaped but for
    # letters, digits and -._~
    def self.with_query(path, query)
      escape = ->(text) { text.to_s.b.gsub(/[^A-Za-z0-9\-._~]/n) { |c| format("%%%02X", c.ord) } }
      pairs = query.reject { |_, value| value.nil? }.map { |name, value| "#{escape[name]}=#{escape[value]}" }
      pairs.empty? ? path : "#{path}#{path.include?('?') ? '&' : '?'}#{pairs.join('&')}"
    end

    # Whether the answer is shorter than it says. Net::HTTP takes such a one for
    # whole. The names of the headers are in lower case.
    def self.cut?(method, headers, body)
      method != "HEAD" && headers.key?("content-length") && !headers.key?("content-encoding") && body.bytesize < headers["content-length"].to_i
    end

    # A connection that failed.
    class Failure < StandardError
      attr_reader :sent

      def initialize(sent, cause)
        @sent = sent
        super(cause.message)
      end
    end
    private_constant :Failure

    private

    def build(method, target, body, headers)
      request = Net::HTTPGenericRequest.new(method, !body.nil?, method != "HEAD", target,
                                            "User-Agent" => "card-gateway-ruby/#{VERSION}", "Accept-Encoding" => "identity")
      if body
        request["Content-Type"] = body.content_type
        request.body = body.bytes
      elsif %w[POST PUT PATCH].include?(method)
        request["Content-Length"] = "0"
      end
      headers.each { |name, value| request[name] = value }
      request
    end

    def attempt(request)
      http = Net::HTTP.new(@policy.base.hostname, @policy.base.port)
      http.use_ssl = @policy.base.scheme == "https"
      http.max_retries = 0 # Net::HTTP would send the old nonce again
      http.open_timeout = 10
      http.read_timeout = http.write_timeout = @timeout
      connected = false
      http.start do
        connected = true
        response = http.request(request)
        answer = Answer.new(response.code.to_i, response.each_header.to_h, response.body.to_s)
        raise EOFError, "the answer ends early" if Client.cut?(request.method, answer.headers, answer.body)

        answer
      end
    rescue SystemCallError, SocketError, IOError, Timeout::Error, OpenSSL::SSL::SSLError, Net::ProtocolError, Net::HTTPBadResponse => e
      raise Failure.new(connected, e)
    end

    def judge(answer)
      raise ApiError, answer if answer.status >= 400
      raise RedirectError.new(answer.status, answer.headers["location"]) if answer.status >= 300

      answer
    end
  end
end
