/** The fields in which a person chooses the agent, effort and model of one run. */
import { type Signal, useSignal } from '@preact/signals'
import { AGENTS } from '../../../protocol/agents/registry.ts'
import type { RunAgentChoice } from '../../../protocol/run.ts'
import { SelectField, TextField } from '../../elements/field.tsx'
import { config } from '../state/records.ts'

export interface AgentWish {
  readonly provider: Signal<string>
  readonly model: Signal<string>
  readonly effort: Signal<string>
}

const EFFORTS = ['low', 'medium', 'high'] as const

export const useAgentWish = (): AgentWish => ({
  provider: useSignal(''),
  model: useSignal(''),
  effort: useSignal(''),
})

/** Only what differs from the configuration. */
export function choiceOf({ provider, model, effort }: AgentWish): RunAgentChoice {
  const agent = Object.values(AGENTS).find((each) => each.provider === provider.value)?.provider
  const level = EFFORTS.find((each) => each === effort.value)
  return {
    ...(agent === undefined ? {} : { provider: agent }),
    ...(model.value.trim() === '' ? {} : { model: model.value.trim() }),
    ...(level === undefined ? {} : { effort: level }),
  }
}

export function AgentFields({ wish }: { readonly wish: AgentWish }) {
  const agent = config.value?.agent
  return (
    <>
      <div class="field-row">
        <SelectField
          label="Agent"
          value={wish.provider.value}
          change={(value) => {
            wish.provider.value = value
          }}
          options={[
            ['', `${AGENTS[agent?.provider ?? 'agentA'].productName}, or the repository’s`],
            ...Object.values(AGENTS).map((each) => [each.provider, each.productName] as const),
          ]}
        />
        <SelectField
          label="Effort"
          value={wish.effort.value}
          change={(value) => {
            wish.effort.value = value
          }}
          options={[
            ['', `As configured (${agent?.orchestratorEffort ?? 'medium'})`],
            ...EFFORTS.map((each) => [each, each] as const),
          ]}
        />
      </div>
      <TextField
        label="Model"
        hint="Empty: the configured one, or the agent’s own."
        value={wish.model.value}
        placeholder={agent?.orchestratorModel ?? ''}
        change={(text) => {
          wish.model.value = text
        }}
      />
    </>
  )
}
