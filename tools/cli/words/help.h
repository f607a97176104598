// The help of the command and of its verbs, in the manner of a man page.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace saturate {

std::shared_ptr<CLI::FormatterBase> man_formatter();

}  // namespace saturate
