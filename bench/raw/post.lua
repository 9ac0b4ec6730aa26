-- For wrk: posts its one argument, a JSON text, again and again.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"

function init(args)
  wrk.body = args[1]
end
