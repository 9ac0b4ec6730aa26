/** Finds the pull request that a person means: `REPO NUMBER`, `REPO#NUMBER`, or the ticket whose run opened it. */
import type { Client } from '../../../client/client.ts'
import { concernsOf } from '../../../protocol/pull-concerns.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { Run } from '../../../protocol/run.ts'
import { refusedError, usageError } from '../../process/exit.ts'
import { findRun } from '../command/names.ts'

/** The parameters of the routes of one pull request. */
export interface PullName {
  readonly repo: string
  readonly number: number
}

export async function findPull(client: Client, words: readonly string[]): Promise<PullName> {
  const [first = '', second, ...others] = words
  if (others.length > 0 || (second !== undefined && !isNumber(second)))
    throw usageError(`${words.join(' ')} is no pull request`, 'switchyard pulls show REPO NUMBER')
  if (second !== undefined) return { repo: await findRepo(client, first), number: Number(second) }
  const [, name, number] = /^(.+)#(\d+)$/.exec(first) ?? []
  if (name === undefined || !isNumber(number)) return await pullOfRun(client, await findRun(client, first))
  const [repo, run] = await Promise.all([findRepo(client, name), runOfIssue(client, first)])
  const opened = run?.prUrl === undefined ? undefined : await pullOfRun(client, run)
  return opened?.repo === repo ? opened : { repo, number: Number(number) }
}

/**
 * Issues and pull requests of one repository share their numbers, so the name of an issue is that of no pull request.
 */
async function runOfIssue(client: Client, name: string): Promise<Run | undefined> {
  const [run] = await client.listRuns({ ticket: name, limit: 1 })
  return run
}

const isNumber = (text: string | undefined): boolean => /^[1-9]\d{0,14}$/.test(text ?? '')

/** A repository is named by its key, by its `owner/name`, or by the name alone where one key has it. */
async function findRepo(client: Client, name: string): Promise<string> {
  const { repos } = await client.readConfig()
  if (Object.hasOwn(repos, name)) return name
  const keysOf = (fits: (remote: string) => boolean) =>
    Object.entries(repos).flatMap(([key, { remote }]) => (fits(remote) ? [key] : []))
  const [whole] = keysOf((remote) => remote === name)
  const [key, ...others] = keysOf((remote) => remote.endsWith(`/${name}`))
  // The host refuses a name that it does not know.
  return whole ?? (others.length === 0 ? (key ?? name) : name)
}

async function pullOfRun(client: Client, { ticket, pull, prUrl }: Run): Promise<PullName> {
  if (pull !== undefined) return { repo: await findRepo(client, pull.remote), number: pull.number }
  // Not every record names the number, but each pull request has its address.
  const { pulls } = prUrl === undefined ? { pulls: [] } : await client.listPulls()
  const found = pulls.find(({ url }) => url === prUrl)
  if (found === undefined) throw refusedError(`${ticket.identifier} has no pull request`, 'switchyard pulls')
  return { repo: found.repo, number: found.number }
}

/** The form that stands beside each other: `api#87`. */
export const formatPull = ({ repo, number }: PullName): string => `${repo}#${number}`

/**
 * Refuses a merge while something speaks against it.
 *
 * @param clean takes away what a terminal or an agent must not receive from others
 */
export async function refuseConcerns(
  client: Pick<Client, 'readPull'>,
  name: PullName,
  clean: (text: string) => string,
): Promise<void> {
  const concerns = concernsOf(await client.readPull(name))
  if (concerns.length === 0) return
  throw refusedError(
    clean(`${formatPull(name)} is not merged: ${concerns.join('; ')}`),
    `switchyard pulls merge ${quoteWord(name.repo)} ${name.number} --anyway`,
  )
}
