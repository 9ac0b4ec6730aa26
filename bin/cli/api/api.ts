/**
 * `switchyard api METHOD PATH`: one request with the token added, and the host's answer as it is. `paths` and
 * `version` need no host.
 */

import { join } from 'node:path'
import { openReply } from '../../../client/host-request.ts'
import { resolveDataDir } from '../../process/data-dir.ts'
import { usageError } from '../../process/exit.ts'
import { readTextOption } from '../../process/parse-option.ts'
import { VERSION } from '../../process/this-program.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'

interface ApiOptions extends ClientOptions {
  readonly body?: string | undefined
}

export async function api(context: CommandContext<ApiOptions>, method: string, path: string): Promise<void> {
  const { connection, options, output } = context
  if (!path.startsWith('/')) throw usageError(`${path} is no path`, `switchyard api ${method} /${path}`)
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
    throw usageError('--body is no JSON', `--body '{"title":"…"}'`)
  }
}

export async function paths({ output, options }: CommandContext): Promise<void> {
  const data = resolveDataDir(options.dataDir)
  const found = {
    data,
    config: join(data, 'config.json'),
    launch: join(data, 'launch.json'),
    program: process.argv[1] ?? '',
  }
  if (output.format === 'json') output.json(found)
  else for (const [name, path] of Object.entries(found)) output.data(`${name.padEnd(9)}${path}`)
}

export async function version({ output }: CommandContext): Promise<void> {
  const { version: node, platform, arch } = process
  if (output.format === 'json') output.json({ version: VERSION, node, platform, arch })
  else output.data(VERSION)
}
