/**
 * The dialog before a run, a retry or a follow-up: words for the agent, and another agent where a person chooses one.
 */
import { useSignal } from '@preact/signals'
import { AGENTS } from '../../../protocol/agents/registry.ts'
import type { RunOptions } from '../../../protocol/run.ts'
import { showDialog } from '../../elements/dialog.tsx'
import { SelectField, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { config } from '../state/records.ts'

export interface RunQuestion {
  /** `Start a run of ENG-12` */
  readonly title: string
  readonly lead: string
  readonly act: string
  readonly busyWord: string
  readonly hint: string
  /** A rejection keeps the dialog open. */
  readonly send: (options: RunOptions) => Promise<void>
}

export function askRunOptions(question: RunQuestion): Promise<void> {
  return showDialog((close) => <RunOptionsForm question={question} close={close} />)
}

const EFFORTS = ['low', 'medium', 'high'] as const

function RunOptionsForm({ question, close }: { readonly question: RunQuestion; readonly close: () => void }) {
  const instructions = useSignal('')
  const provider = useSignal('')
  const model = useSignal('')
  const effort = useSignal('')
  const agent = config.value?.agent

  async function send(): Promise<void> {
    const name = providerOf(provider.value)
    const level = effortOf(effort.value)
    const body: RunOptions = {
      ...(instructions.value.trim() === '' ? {} : { instructions: instructions.value }),
      ...(name === undefined ? {} : { provider: name }),
      ...(model.value.trim() === '' ? {} : { model: model.value.trim() }),
      ...(level === undefined ? {} : { effort: level }),
    }
    await question.send(body)
  }

  return (
    <FormDialog
      title={question.title}
      act={question.act}
      busyWord={question.busyWord}
      send={send}
      close={close}
    >
      <p class="quiet dialog-lead">{question.lead}</p>
      <TextField
        label="Instructions"
        hint={question.hint}
        lines={4}
        value={instructions.value}
        change={(text) => {
          instructions.value = text
        }}
        autoFocus
      />
      <div class="field-row">
        <SelectField
          label="Agent"
          value={provider.value}
          change={(value) => {
            provider.value = value
          }}
          options={[
            ['', `${AGENTS[agent?.provider ?? 'agentA'].productName}, or the repository’s`],
            ...Object.values(AGENTS).map((each) => [each.provider, each.productName] as const),
          ]}
        />
        <SelectField
          label="Effort"
          value={effort.value}
          change={(value) => {
            effort.value = value
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
        value={model.value}
        placeholder={agent?.orchestratorModel ?? ''}
        change={(text) => {
          model.value = text
        }}
      />
    </FormDialog>
  )
}

const providerOf = (value: string) =>
  Object.values(AGENTS).find(({ provider }) => provider === value)?.provider
const effortOf = (value: string) => EFFORTS.find((effort) => effort === value)
