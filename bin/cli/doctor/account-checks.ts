/** Tells whether the tracker and the code host can be used with their credentials. */
import { access, constants } from 'node:fs/promises'
import { connectTrackerCommand } from '../../../core/explain/connect-command.ts'
import type { Refusal, Result } from '../../../core/result.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { CODE_HOST_FACTS, isFolder, TRACKER_FACTS } from '../../../protocol/drivers.ts'
import { codeOf, messageOf } from '../../../protocol/message-of.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { TrackerStatus } from '../../../protocol/tracker.ts'
import { CODE_HOST_REGISTRY } from '../../../providers/codehost/registry.ts'
import { type Check, fail, type Judgement, ok, warn } from './examine.ts'
import type { ExaminedMachine } from './examined-machine.ts'

type TrackerSettings = ServiceConfig['tracker']

/**
 * Tells whether tickets can be read: by what the running host says, else by asking the tracker with the credential.
 */
export const trackerCheck: Check = {
  id: 'tracker',
  places: ['host', 'elsewhere'],
  async judge(machine) {
    const [config, host] = await Promise.all([machine.config(), machine.host()])
    if (!config.ok) return []
    const { tracker } = config.value
    return [
      host.is === 'running' ? judgeStatus(tracker, host.tracker) : await judgeByAsking(machine, tracker),
    ]
  },
}

function judgeStatus(settings: TrackerSettings, { state, error }: TrackerStatus): Judgement {
  const { driver } = settings
  const because = error === undefined ? '' : `: ${error}`
  const connect = connectTrackerCommand(driver)
  switch (state) {
    case 'connected':
      return error === undefined
        ? ok(`${driver}, connected`)
        : warn(`${driver}${because}`, cureOfListing(settings, error))
    case 'refresh-failing':
      return warn(`${driver}, its token cannot be refreshed at the moment${because}`, connect)
    case 'auth-error':
      return fail(`${driver} refuses the credential${because}`, connect)
    case 'disconnected':
      return fail(`${driver} is not connected${because}`, connect)
  }
}

/** The credential is good, so the trouble lies with the files of the folder, or on the way to the service. */
function cureOfListing({ driver, path }: TrackerSettings, error: string): string {
  if (!isFolder(TRACKER_FACTS[driver])) return `check the network, and switchyard config get ${ADDRESS_KEY}`
  return path === undefined || error.startsWith('tracker.path')
    ? connectTrackerCommand(driver)
    : `mend these files in ${quoteWord(path)}`
}

const ADDRESS_KEY = 'tracker.apiUrl'

async function judgeByAsking(machine: ExaminedMachine, tracker: TrackerSettings): Promise<Judgement> {
  const { driver, path, refreshToken = '', tokenExpiresAt } = tracker
  const connect = connectTrackerCommand(driver)
  if (isFolder(TRACKER_FACTS[driver]))
    return await judgeFolder('tracker.path', 'tickets', path, {
      unnamed: connect,
      missing: `mkdir -p ${quoteWord(path ?? '')}`,
      unusable: `ls -ld ${quoteWord(path ?? '')}`,
    })
  const hasExpired = tokenExpiresAt !== undefined && Date.parse(tokenExpiresAt) <= machine.now()
  if (hasExpired && refreshToken !== '')
    return ok(`${driver}, whose token has expired; the host refreshes it when it starts`)
  const account = await machine.trackerAccount()
  if (account === undefined) return fail(`${driver} is not connected`, connect)
  return judgeAccount(driver, account, { connect, addressKey: ADDRESS_KEY })
}

// ---- the code host -------------------------------------------------------------------------------------------------

const CURES = { connect: 'switchyard connect codehost', addressKey: 'codehost.apiUrl' }
const CHOOSE_FOLDER = 'switchyard config set codehost.path FOLDER'
const FOLDER_CURES = { unnamed: CHOOSE_FOLDER, missing: CHOOSE_FOLDER, unusable: CHOOSE_FOLDER }

/** Tells whether the code host takes the token, and whether the token may push to each configured repository. */
export const codehostCheck: Check = {
  id: 'codehost',
  places: ['host', 'elsewhere'],
  async judge(machine) {
    const config = await machine.config()
    if (!config.ok) return []
    const { driver, path, token = '' } = config.value.codehost
    if (isFolder(CODE_HOST_FACTS[driver]))
      return machine.place === 'host'
        ? [await judgeFolder('codehost.path', 'repositories', path, FOLDER_CURES)]
        : []
    if (token === '') return [fail(`${driver} is not connected`, CURES.connect)]
    const account = await machine.codehostAccount()
    if (account === undefined) return [ok(`${driver}; the host has a token`)]
    const judgement = judgeAccount(driver, account, CURES)
    if (!account.ok) return [judgement]
    const problems = await judgeRights(machine, config.value)
    return problems.length === 0 ? [judgement] : problems
  },
}

/** Repositories whose rights are read. */
const DOCTOR_REPOS_MAX = 20

/** Only what is wrong with the rights. */
async function judgeRights(
  { clients }: ExaminedMachine,
  { codehost, repos }: ServiceConfig,
): Promise<readonly Judgement[]> {
  const { driver } = codehost
  const remotes = [...new Set(Object.values(repos).map(({ remote }) => remote))].slice(0, DOCTOR_REPOS_MAX)
  const judged = remotes.map(async (remote) => {
    const mayPush = await CODE_HOST_REGISTRY[driver].mayPush(codehost, remote, clients())
    if (!mayPush.ok) return [judgeRefusal(driver, mayPush.refusal, CURES)]
    return mayPush.value ? [] : [fail(`${driver}: the token may not push to ${remote}`, CURES.connect)]
  })
  return (await Promise.all(judged)).flat()
}

// ---- of both -------------------------------------------------------------------------------------------------------

async function judgeFolder(
  key: string,
  content: string,
  path: string | undefined,
  { unnamed, missing, unusable }: Readonly<Record<'unnamed' | 'missing' | 'unusable', string>>,
): Promise<Judgement> {
  if (path === undefined) return fail(`${key} names no folder`, unnamed)
  try {
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
    return ok(`the folder ${path}`)
  } catch (error) {
    return codeOf(error) === 'ENOENT'
      ? fail(`there is no folder ${path} for ${content}`, missing)
      : fail(`the folder of the ${content} cannot be used: ${messageOf(error)}`, unusable)
  }
}

interface AccountCures {
  /** The command that connects the service again. */
  readonly connect: string
  /** The setting with the service's address. */
  readonly addressKey: string
}

/** Judges the answer of a service to the question whose credential this is. */
function judgeAccount(driver: string, account: Result<string>, cures: AccountCures): Judgement {
  if (account.ok) return ok(`${driver}, connected as ${account.value}`)
  return judgeRefusal(driver, account.refusal, cures)
}

/** A service out of reach says nothing about the credential. */
function judgeRefusal(
  driver: string,
  { kind, message }: Refusal,
  { connect, addressKey }: AccountCures,
): Judgement {
  const isAway = kind === 'unavailable' || kind === 'failed'
  return isAway
    ? warn(
        `${driver} is out of reach: ${message}`,
        `check the network, and switchyard config get ${addressKey}`,
      )
    : fail(`${driver}: ${message}`, connect)
}
