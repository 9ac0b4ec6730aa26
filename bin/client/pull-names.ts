/** Finds the pull request that a person means: `REPO NUMBER`, `REPO#NUMBER`, or the ticket whose run opened it. */
import type { Client } from '../../client/client.ts'
import { EXIT, ExitError } from '../exit.ts'
import { findRun } from './names.ts'

/** The parameters of the routes of one pull request. */
export interface PullName {
  readonly repo: string
  readonly number: number
}

export async function findPull(client: Client, words: readonly string[]): Promise<PullName> {
  const [first = '', second, ...others] = words
  if (others.length > 0 || (second !== undefined && !isNumber(second)))
    throw new ExitError(
      EXIT.usage,
      `${words.join(' ')} is no pull request`,
      'switchyard pulls show REPO NUMBER',
    )
  if (second !== undefined) return { repo: await findRepo(client, first), number: Number(second) }
  const [, repo, number] = /^(.+)#(\d+)$/.exec(first) ?? []
  if (repo !== undefined && isNumber(number))
    return { repo: await findRepo(client, repo), number: Number(number) }
  return await pullOfRun(client, first)
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

async function pullOfRun(client: Client, name: string): Promise<PullName> {
  const { ticket, pull, prUrl } = await findRun(client, name)
  if (pull !== undefined) return { repo: await findRepo(client, pull.remote), number: pull.number }
  // Not every record names the number, but each pull request has its address.
  const { pulls } = prUrl === undefined ? { pulls: [] } : await client.listPulls()
  const found = pulls.find(({ url }) => url === prUrl)
  if (found === undefined)
    throw new ExitError(EXIT.refused, `${ticket.identifier} has no pull request`, 'switchyard pulls')
  return { repo: found.repo, number: found.number }
}

/** The form that stands beside each other: `api#87`. */
export const formatPull = ({ repo, number }: PullName): string => `${repo}#${number}`
