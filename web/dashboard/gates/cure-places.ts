/** The place of the page where a person does what a cure of the host says as a command. */
import { runAddress, settingAddress, ticketAddress } from '../addresses.ts'

export interface CurePlace {
  readonly text: string
  readonly to: string
}

type Maker = (words: readonly string[]) => CurePlace | undefined

/** The longest beginning that fits decides. */
const MAKERS: readonly (readonly [command: string, make: Maker])[] = [
  ['connect', ([provider = '']) => ({ text: 'Connect the account', to: `/connect#${provider}` })],
  ['config set', settingOf],
  ['config get', settingOf],
  ['config unset', settingOf],
  ['workers provision', () => ({ text: 'Pair a worker', to: '/fleet#pair' })],
  ['workers pair', () => ({ text: 'Pair a worker', to: '/fleet#pair' })],
  ['workers', () => ({ text: 'Go to the fleet', to: '/fleet' })],
  ['resume', () => ({ text: 'Resume', to: settingAddress('policy.paused') })],
  [
    'explain',
    ([name]) => (name === undefined ? undefined : { text: `Show ${shown(name)}`, to: placeOf(name) }),
  ],
  ['start', ([name]) => (name === undefined ? undefined : { text: 'Start a run', to: placeOf(name) })],
  ['retry', ([name]) => (name === undefined ? undefined : { text: 'Run it again', to: placeOf(name) })],
  [
    'runs artifacts',
    ([name]) => (name === undefined ? undefined : { text: 'Show what is kept', to: placeOf(name) }),
  ],
  ['pulls', () => ({ text: 'Go to the pull requests', to: '/pulls' })],
  ['runs', () => ({ text: 'Go to the runs', to: '/runs' })],
]

/** Undefined for a cure that no page can do; its text is shown as it is. */
export function curePlace(cure: string): CurePlace | undefined {
  const command = /(?:^|: )switchyard (.+)$/.exec(cure)?.[1]
  if (command === undefined) return undefined
  for (const [beginning, make] of MAKERS) {
    if (command !== beginning && !command.startsWith(`${beginning} `)) continue
    return make(wordsOf(command.slice(beginning.length)))
  }
  return undefined
}

function settingOf([key]: readonly string[]): CurePlace {
  return key === undefined
    ? { text: 'Go to the settings', to: '/settings' }
    : { text: `Change ${key}`, to: settingAddress(key) }
}

const RUN = /^run-[0-9a-f]{32}$/
const placeOf = (name: string): string => (RUN.test(name) ? runAddress(name) : ticketAddress(name))
const shown = (name: string): string => (RUN.test(name) ? 'the run' : name)

/** Splits a command as a shell does, where words stand in single quotes at most. */
function wordsOf(text: string): string[] {
  const words = text.match(/(?:'[^']*'|\\'|[^\s'\\])+/g) ?? []
  return words.map((word) =>
    word.replace(/'([^']*)'|\\(')/g, (_, quoted, escaped) => quoted ?? escaped ?? ''),
  )
}
