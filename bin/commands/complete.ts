/**
 * `switchyard complete -- WORD…`: prints what may stand in place of the last word, for the shells' completion.
 *
 * Each line is a value, a tab and what it is; the last line says whether files complete it too. Ids come from the
 * host when it answers in time. Nothing else is ever printed: a shell would write an error into the line.
 */
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { createClient } from '../../client/client.ts'
import { connectToHost } from '../client/host-connection.ts'
import { readIds } from '../completion/ids.ts'
import { type Candidate, type Completion, readLine } from '../completion/line.ts'
import { cleanLine, truncateEnd } from '../output/text-width.ts'

/** From the start of this process to its end. */
const COMPLETION_MS_MAX = 300
/** For what comes after the last answer. */
const PRINTING_MS = 20
const ABOUT_COLUMNS_MAX = 60
/** No shell reads anything else into these values, so no text of others becomes a command. */
const PLAIN = /^[\w-][\w.+/@%-]*$/

/** The numbers that the library's scripts know. */
const DIRECTIVE = { files: 0, noFiles: 4 } as const

export async function complete(tree: CommandUnknownOpts, typed: readonly string[]): Promise<void> {
  const completion = readLine(tree, typed)
  const candidates = [...completion.words, ...(await readIdsInTime(completion))]
  const lines = new Map<string, string>()
  for (const { value, about } of candidates)
    if (value.startsWith(completion.beginning) && PLAIN.test(value) && !lines.has(value))
      lines.set(value, `${value}\t${describe(about)}`)
  const directive = completion.areFilesWanted ? DIRECTIVE.files : DIRECTIVE.noFiles
  process.stdout.write(`${[...lines.values(), `:${directive}`].join('\n')}\n`)
}

async function readIdsInTime(completion: Completion): Promise<Candidate[]> {
  const leftMs = COMPLETION_MS_MAX - PRINTING_MS - process.uptime() * 1000
  if (completion.ids.length === 0 || leftMs <= 0) return []
  try {
    const { dataDir, hostUser } = completion
    const client = createClient(connectToHost(dataDir, process.env, hostUser))
    return await readIds(client, completion, { signal: AbortSignal.timeout(Math.ceil(leftMs)) })
  } catch {
    return []
  }
}

const describe = (about: string): string => truncateEnd(cleanLine(about), ABOUT_COLUMNS_MAX, '...')
