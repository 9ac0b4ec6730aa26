/** Tells whether tickets can be read: by what the running host says, else by asking the tracker with the credential. */
import { access, constants } from 'node:fs/promises'
import { connectTrackerCommand } from '../../../core/explain/connect-command.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { isFolder, TRACKER_FACTS } from '../../../protocol/drivers.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { TrackerStatus } from '../../../protocol/tracker.ts'
import { codeOf, messageOf } from '../../../store/errors.ts'
import type { ExaminedMachine } from '../examined-machine.ts'
import { type Check, fail, type Judgement, ok, warn } from '../finding.ts'
import { judgeAccount } from '../judge-account.ts'

type TrackerSettings = ServiceConfig['tracker']

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
  if (isFolder(TRACKER_FACTS[driver])) return await judgeFolder(path, connect)
  const hasExpired = tokenExpiresAt !== undefined && Date.parse(tokenExpiresAt) <= machine.now()
  if (hasExpired && refreshToken !== '')
    return ok(`${driver}, whose token has expired; the host refreshes it when it starts`)
  const account = await machine.trackerAccount()
  if (account === undefined) return fail(`${driver} is not connected`, connect)
  return judgeAccount(driver, account, { connect, addressKey: ADDRESS_KEY })
}

async function judgeFolder(path: string | undefined, connect: string): Promise<Judgement> {
  if (path === undefined) return fail('tracker.path names no folder', connect)
  try {
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
    return ok(`the folder ${path}`)
  } catch (error) {
    return codeOf(error) === 'ENOENT'
      ? fail(`there is no folder ${path} for tickets`, `mkdir -p ${quoteWord(path)}`)
      : fail(`the folder of the tickets cannot be used: ${messageOf(error)}`, `ls -ld ${quoteWord(path)}`)
  }
}
