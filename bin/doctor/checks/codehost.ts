/** Tells whether the code host takes the token, and whether the token may push to each configured repository. */
import { access, constants } from 'node:fs/promises'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { CODE_HOST_FACTS, isFolder } from '../../../protocol/drivers.ts'
import { DOCTOR_REPOS_MAX } from '../../../protocol/limits.ts'
import { CODE_HOST_REGISTRY } from '../../../providers/codehost/registry.ts'
import { codeOf, messageOf } from '../../../store/errors.ts'
import type { ExaminedMachine } from '../examined-machine.ts'
import { type Check, fail, type Judgement, ok } from '../finding.ts'
import { judgeAccount, judgeRefusal } from '../judge-account.ts'

const CURES = { connect: 'switchyard connect codehost', addressKey: 'codehost.apiUrl' }

export const codehostCheck: Check = {
  id: 'codehost',
  places: ['host', 'elsewhere'],
  async judge(machine) {
    const config = await machine.config()
    if (!config.ok) return []
    const { driver, path, token = '' } = config.value.codehost
    if (isFolder(CODE_HOST_FACTS[driver])) return machine.place === 'host' ? [await judgeFolder(path)] : []
    if (token === '') return [fail(`${driver} is not connected`, CURES.connect)]
    const account = await machine.codehostAccount()
    if (account === undefined) return [ok(`${driver}; the host has a token`)]
    const judgement = judgeAccount(driver, account, CURES)
    if (!account.ok) return [judgement]
    const problems = await judgeRights(machine, config.value)
    return problems.length === 0 ? [judgement] : problems
  },
}

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

async function judgeFolder(path: string | undefined): Promise<Judgement> {
  const cure = 'switchyard config set codehost.path FOLDER'
  if (path === undefined) return fail('codehost.path names no folder', cure)
  try {
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
    return ok(`the folder ${path}`)
  } catch (error) {
    return codeOf(error) === 'ENOENT'
      ? fail(`there is no folder ${path} for repositories`, cure)
      : fail(`the folder of the repositories cannot be used: ${messageOf(error)}`, cure)
  }
}
