/** The words of a person and the agent for one run: limits, what a retry keeps, and what the job holds. */
import { describe, expect, test } from '@jest/globals'
import { buildJob } from '../../../core/run/job.ts'
import { jobNeeds } from '../../../core/run/job-needs.ts'
import { applyRunOptions, checkRunOptions } from '../../../core/run/run-options.ts'
import { configDefaults, type ServiceConfig } from '../../../protocol/config.ts'
import { Job } from '../../../protocol/frames.ts'
import { RUN_INSTRUCTIONS_BYTES_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { Run, RunOptions } from '../../../protocol/run.ts'
import { aRun } from './runs.ts'

describe('limits', () => {
  test('instructions are counted in bytes, not in characters', () => {
    const half = RUN_INSTRUCTIONS_BYTES_MAX / 2
    expect(checkRunOptions({ instructions: 'ä'.repeat(half) }).ok).toBe(true)
    expect(checkRunOptions({ instructions: `${'ä'.repeat(half)}!` })).toMatchObject({
      refusal: { kind: 'invalid', message: '/instructions: must have at most 16384 bytes in UTF-8' },
    })
  })

  test.each([
    [{ provider: 'agentZ' }, /^\/provider: /],
    [{ effort: 'extreme' }, /^\/effort: /],
    [{ model: '--yolo' }, /^\/model: must be the name of a model/],
    [{ model: 'two words' }, /^\/model: must be the name of a model/],
    [{ instructions: 'x'.repeat(RUN_INSTRUCTIONS_BYTES_MAX + 1) }, /^\/instructions: /],
    [{ words: 'x' }, /^\/words: /],
  ])('%j is refused', (body, error) => {
    expect(createChecker(RunOptions)(body)).toMatchObject({ error: expect.stringMatching(error) })
  })
})

describe('the record', () => {
  const asked = applyRunOptions(aRun(), {
    instructions: 'Use SQLite.',
    provider: 'agentB',
    model: 'large',
    effort: 'high',
  })

  test('holds what was said', () => {
    expect(asked).toMatchObject({
      instructions: 'Use SQLite.',
      agent: { provider: 'agentB', model: 'large', effort: 'high' },
    })
    expect(createChecker(Run)(asked).ok).toBe(true)
  })

  test('keeps what is not said again', () => {
    expect(applyRunOptions(asked, {})).toEqual(asked)
    expect(applyRunOptions(asked, { effort: 'low' }).agent).toEqual({ ...asked.agent, effort: 'low' })
    expect(applyRunOptions(aRun(), {})).toEqual(aRun())
  })

  test('loses its instructions by empty ones, and a model by another provider', () => {
    expect(applyRunOptions(asked, { instructions: ' ' })).not.toHaveProperty('instructions')
    expect(applyRunOptions(asked, { provider: 'agentC' }).agent).toEqual({
      provider: 'agentC',
      effort: 'high',
    })
  })
})

describe('the job', () => {
  const config: ServiceConfig = {
    ...configDefaults,
    agent: {
      ...configDefaults.agent,
      orchestratorModel: 'usual',
      agentAApiKey: 'key-a',
      agentBLogin: '{}',
    },
  }
  const mapping = { remote: 'ada/lamps', agent: 'agentA' } as const
  const jobOf = (options: RunOptions) => {
    const run = applyRunOptions(aRun(), options)
    const job = buildJob({
      kind: 'run',
      run,
      config,
      repo: { key: 'lamps', mapping },
      memories: [],
      storedLogBytes: 0,
    })
    expect(createChecker(Job)(job).ok).toBe(true)
    return job
  }

  test('has the configured agent when nothing is said', () => {
    expect(jobOf({}).agent).toMatchObject({ provider: 'agentA', model: 'usual', effort: 'medium' })
    expect(jobOf({}).run).not.toHaveProperty('instructions')
  })

  test('has the instructions with the run', () => {
    expect(jobOf({ instructions: 'Use SQLite.' }).run).toHaveProperty('instructions', 'Use SQLite.')
  })

  test('has the chosen model and effort', () => {
    expect(jobOf({ model: 'large', effort: 'low' }).agent).toMatchObject({ model: 'large', effort: 'low' })
    expect(jobOf({ model: '' }).agent).not.toHaveProperty('model')
  })

  test('has the chosen provider with its credential, and not the model of another', () => {
    const { agent, credentials } = jobOf({ provider: 'agentB' })
    expect(agent.provider).toBe('agentB')
    expect(agent).not.toHaveProperty('model')
    expect(credentials.agent).toEqual({ kind: 'login', value: '{}' })
  })

  test('needs the chosen agent of its worker', () => {
    const run = applyRunOptions(aRun(), { provider: 'agentC' })
    const own = { ...config, codehost: { ...config.codehost, token: 'token' } }
    expect(jobNeeds(run, mapping, own)).toMatchObject({
      agent: 'agentC',
      missingCredential: expect.stringContaining('agentC'),
    })
  })

  test('needs are those of its agent, its repository and the configuration, however often they are asked for', () => {
    const own = { ...config, codehost: { ...config.codehost, token: 'token' } }
    const limited = { ...own, sandbox: { ...own.sandbox, memoryMib: 512 } }
    const keyOf = (provider: 'agentA' | 'agentB', remote: string, from: ServiceConfig) =>
      jobNeeds(applyRunOptions(aRun(), { provider }), { ...mapping, remote }, from).key
    const keys = () => [
      keyOf('agentA', 'owner/one', own),
      keyOf('agentB', 'owner/one', own),
      keyOf('agentA', 'owner/two', own),
      keyOf('agentA', 'owner/one', limited),
    ]
    expect(new Set(keys()).size).toBe(4)
    expect(keys()).toEqual(keys())
  })

  test('cannot use a login of agentC outside the sandbox, and says what to set', () => {
    const needs = (agent: Partial<ServiceConfig['agent']>) =>
      jobNeeds(
        {},
        { ...mapping, agent: 'agentC' },
        {
          ...config,
          codehost: { ...config.codehost, token: 'token' },
          agent: { ...config.agent, agentCLogin: '{}', ...agent },
        },
      ).missingCredential
    expect(needs({})).toBe(
      'credential of agentC is refused: a Gemini CLI login works only inside the sandbox; set agent.agentCApiKey, or agent.keyInSandbox to true',
    )
    expect(needs({ keyInSandbox: true })).toBeUndefined()
    expect(needs({ agentCApiKey: 'a-key' })).toBeUndefined()
  })
})
