/** `switchyard api METHOD PATH`: one request with the token added, and the host's answer as it is. */
import { openReply } from '../../client/host-request.ts'
import type { ClientOptions, CommandContext } from '../client/run-command.ts'
import { readTextOption } from '../client/text-option.ts'
import { EXIT, ExitError } from '../exit.ts'

export interface ApiOptions extends ClientOptions {
  readonly body?: string | undefined
}

export async function api(context: CommandContext<ApiOptions>, method: string, path: string): Promise<void> {
  const { connection, options, output } = context
  if (!path.startsWith('/'))
    throw new ExitError(EXIT.usage, `${path} is no path`, `switchyard api ${method} /${path}`)
  const text = options.body === undefined ? undefined : await readTextOption(options.body, '--body')
  const body = text === undefined ? undefined : parseBody(text)
  const { reply } = await openReply(connection, { method, path, body }, {})
  const decoder = new TextDecoder()
  let last = ''
  for await (const chunk of reply.body) {
    last = decoder.decode(chunk, { stream: true })
    output.writeData(last)
    await output.drained()
  }
  if (!last.endsWith('\n')) output.writeData('\n')
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ExitError(EXIT.usage, '--body is no JSON', `--body '{"title":"…"}'`)
  }
}
