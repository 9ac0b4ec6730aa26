/**
 * Asks the code host, by the host, what no record tells: whether it answers, and how the pull requests that wait for a
 * person stand. A code host that is slow or away delays the caller by a bounded time.
 */
import type { AttentionItem } from '../protocol/attention.ts'
import type { ServiceConfig } from '../protocol/config.ts'
import { CODE_HOST_FACTS, isFolder } from '../protocol/drivers.ts'
import type { Client } from './client.ts'
import { HostRefusal } from './errors.ts'

const ANSWER_MS_MAX = 3_000
/** More would use up the requests that a code host grants. */
const PULLS_READ_MAX = 10

/** Words for a person: `github, connected`, `github, not connected`, `github, gives no answer`. */
export async function describeCodeHost(
  client: Pick<Client, 'listCodehostRepos'>,
  { codehost: { driver, token } }: Pick<ServiceConfig, 'codehost'>,
): Promise<string> {
  if (!isFolder(CODE_HOST_FACTS[driver]) && (token ?? '') === '') return `${driver}, not connected`
  try {
    await client.listCodehostRepos({}, { timeoutMs: ANSWER_MS_MAX })
    return `${driver}, connected`
  } catch (error) {
    return `${driver}, ${error instanceof HostRefusal ? error.message : 'gives no answer'}`
  }
}

/** The host notes what it sees of these pull requests. Returns whether one was read. */
export async function readWaitingPulls(
  client: Pick<Client, 'readPull'>,
  items: readonly AttentionItem[],
): Promise<boolean> {
  const asked = items
    .flatMap(({ kind, pull }) => (kind === 'review' || kind === 'conflict' ? (pull ?? []) : []))
    .flatMap(({ repo, number }) => (repo === undefined ? [] : [{ repo, number }]))
    .slice(0, PULLS_READ_MAX)
  const read = await Promise.allSettled(
    asked.map((name) => client.readPull(name, { timeoutMs: ANSWER_MS_MAX })),
  )
  return read.some(({ status }) => status === 'fulfilled')
}
