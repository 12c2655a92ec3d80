"""The machine code of `guard.vfork`: a function that gets the address of a table, and returns a process id or a
negative error number.

The new process shares the memory of this one. It uses registers only, and nothing of the stack. All signals are blocked
until both are apart, because a handler would use the memory of both.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LISTINGS: Final[Mapping[str, str]] = {
    "x86_64": """
    53               start:   push rbx
    48 89 fb                  mov rbx, rdi
    bf 02 00 00 00            mov edi, 2
    48 8d 73 18               lea rsi, [rbx+24]
    48 8d 53 10               lea rdx, [rbx+16]
    41 ba 08 00 00 00         mov r10d, 8
    b8 0e 00 00 00            mov eax, 14                    rt_sigprocmask
    0f 05                     syscall
    48 8b 7b 20               mov rdi, [rbx+32]
    31 f6                     xor esi, esi                   the stack of this process
    48 89 da                  mov rdx, rbx
    45 31 d2                  xor r10d, r10d
    45 31 c0                  xor r8d, r8d
    b8 38 00 00 00            mov eax, 56                    clone
    0f 05                     syscall
    48 85 c0                  test rax, rax
    75 4c                     jnz parent
    4c 8d 63 28               lea r12, [rbx+40]              the new process: the first call
    49 8b 04 24      next:    mov rax, [r12]
    49 8b 7c 24 08            mov rdi, [r12+8]
    49 8b 74 24 10            mov rsi, [r12+16]
    49 8b 54 24 18            mov rdx, [r12+24]
    4d 8b 54 24 20            mov r10, [r12+32]
    4d 8b 44 24 28            mov r8, [r12+40]
    4d 8b 4c 24 30            mov r9, [r12+48]
    0f 05                     syscall
    49 3b 44 24 38            cmp rax, [r12+56]
    7c 0d                     jl failed
    49 3b 44 24 40            cmp rax, [r12+64]
    7f 06                     jg failed
    49 83 c4 48               add r12, 72                    the next call
    eb c8                     jmp next
    4c 89 63 08      failed:  mov [rbx+8], r12               which call failed
    bf 7f 00 00 00            mov edi, 127
    b8 e7 00 00 00            mov eax, 231                   exit_group
    0f 05                     syscall
    50               parent:  push rax
    bf 02 00 00 00            mov edi, 2
    48 8d 73 10               lea rsi, [rbx+16]
    31 d2                     xor edx, edx
    41 ba 08 00 00 00         mov r10d, 8
    b8 0e 00 00 00            mov eax, 14                    rt_sigprocmask
    0f 05                     syscall
    58                        pop rax
    5b                        pop rbx
    c3                        ret
    """,
    "aarch64": """
    f3 53 bf a9      start:   stp x19, x20, [sp, #-16]!
    f3 03 00 aa               mov x19, x0
    40 00 80 d2               mov x0, #2
    61 62 00 91               add x1, x19, #24
    62 42 00 91               add x2, x19, #16
    03 01 80 d2               mov x3, #8
    e8 10 80 d2               mov x8, #135                   rt_sigprocmask
    01 00 00 d4               svc #0
    60 12 40 f9               ldr x0, [x19, #32]
    01 00 80 d2               mov x1, #0                     the stack of this process
    e2 03 13 aa               mov x2, x19
    03 00 80 d2               mov x3, #0
    04 00 80 d2               mov x4, #0
    88 1b 80 d2               mov x8, #220                   clone
    01 00 00 d4               svc #0
    40 02 00 b5               cbnz x0, parent
    74 a2 00 91               add x20, x19, #40              the new process: the first call
    88 02 40 a9      next:    ldp x8, x0, [x20]
    81 0a 41 a9               ldp x1, x2, [x20, #16]
    83 12 42 a9               ldp x3, x4, [x20, #32]
    85 26 43 a9               ldp x5, x9, [x20, #48]
    8a 22 40 f9               ldr x10, [x20, #64]
    01 00 00 d4               svc #0
    1f 00 09 eb               cmp x0, x9
    ab 00 00 54               b.lt failed
    1f 00 0a eb               cmp x0, x10
    6c 00 00 54               b.gt failed
    94 22 01 91               add x20, x20, #72              the next call
    f5 ff ff 17               b next
    74 06 00 f9      failed:  str x20, [x19, #8]             which call failed
    e0 0f 80 d2               mov x0, #127
    c8 0b 80 d2               mov x8, #94                    exit_group
    01 00 00 d4               svc #0
    f4 03 00 aa      parent:  mov x20, x0
    40 00 80 d2               mov x0, #2
    61 42 00 91               add x1, x19, #16
    02 00 80 d2               mov x2, #0
    03 01 80 d2               mov x3, #8
    e8 10 80 d2               mov x8, #135                   rt_sigprocmask
    01 00 00 d4               svc #0
    e0 03 14 aa               mov x0, x20
    f3 53 c1 a8               ldp x19, x20, [sp], #16
    c0 03 5f d6               ret
    """,
}
"""The code by machine. Each line has the bytes of an instruction, a label, the instruction in assembly language, and a
note."""

BYTES_WIDTH: Final = 21
"""The bytes are in these first columns."""


def code(machine: str) -> bytes | None:
    """Return the code for this machine, or None if there is none."""
    listing = LISTINGS.get(machine)
    return None if listing is None else bytes.fromhex("".join(line[:BYTES_WIDTH] for line in listing.splitlines()))
