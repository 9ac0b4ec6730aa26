/** The commands that connect what a run or a poll lacks. */
import { AGENTS } from '../../protocol/agents/registry.ts'
import { isFolder, TRACKER_FACTS, type TrackerDriverName } from '../../protocol/drivers.ts'

export function connectTrackerCommand(driver: TrackerDriverName): string {
  const facts = TRACKER_FACTS[driver]
  if (isFolder(facts)) return 'switchyard config set tracker.path FOLDER'
  // Issues of repositories are read with the token of the code host.
  return facts.listsRepositoryIssues ? 'switchyard connect codehost' : 'switchyard connect tracker'
}

/** A queue reason's subject names an agent or the driver of the code host. */
export function connectCommandFor(reason: string): string {
  // Such a credential is connected already, and the cure in its reason names the setting.
  if (reason.includes('agent.keyInSandbox')) return 'switchyard config set agent.keyInSandbox true'
  const [subject = reason] = reason.split(': ')
  const agent = Object.values(AGENTS).find(({ provider }) => subject.includes(` ${provider} `))
  return `switchyard connect ${agent?.provider ?? 'codehost'}`
}
